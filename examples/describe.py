# /// script
# requires-python = ">=3.10"
# dependencies = ["pandas"]
# ///
"""A table of temperatures, described by pandas."""

import pandas as pd

table = pd.DataFrame(
    {
        "city": ["Oslo", "Lima", "Perth", "Oslo", "Lima", "Perth"],
        "month": ["Jan", "Jan", "Jan", "Jul", "Jul", "Jul"],
        "celsius": [-4.3, 22.9, 24.6, 17.7, 16.4, 13.0],
    }
)
print(table.describe())
print()
print(table.pivot(index="city", columns="month", values="celsius"))

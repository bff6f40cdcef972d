"""An analyst's session, as the `mcp` package from Python's index sees it: python session_client.py SERVER [FLAG ...]

Uploads a table, loads it, makes a mistake and corrects it, installs packages, plots, and reads what came of it. Prints a
line for each step, and ends with status 1 when one failed.
"""

import asyncio
import base64
import os
import sys
import traceback

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

TABLE = "city,people\nOslo,709000\nBergen,291000\nTrondheim,212000\n"
PNG = b"\x89PNG\r\n\x1a\n"


def fields(result):
    return getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)


def failed(result):
    return bool(getattr(result, "is_error", None) or getattr(result, "isError", None))


def text(result):
    return "\n".join(part.text for part in result.content if part.type == "text")


def images(result):
    return [base64.b64decode(part.data) for part in result.content if part.type == "image"]


def links(result):
    return [part for part in result.content if part.type == "resource_link"]


class Analyst:
    def __init__(self, session):
        self.session = session

    async def call(self, tool, **arguments):
        return await self.session.call_tool(tool, {"session_id": "analysis", **arguments})

    async def run(self, code, **more):
        return await self.call("execute_code", code=code, **more)

    async def makes_a_sandbox(self):
        result = await self.call("create_sandbox")
        assert fields(result)["session_id"] == "analysis", result

    async def uploads_a_table(self):
        content = base64.b64encode(TABLE.encode()).decode()
        result = await self.call("upload_file", file_name="cities.csv", file_content=content, destination_path="data",
                                 encoding="base64")
        assert fields(result)["path"] == "data/cities.csv", result
        listed = fields(await self.call("list_files", path="data"))["files"]
        assert listed == [{"name": "cities.csv", "type": "file", "size": len(TABLE)}], listed

    async def loads_it_without_packages(self):
        result = await self.run("import csv\nrows = list(csv.DictReader(open('data/cities.csv')))\nlen(rows)")
        assert fields(result)["results"] == [{"text": "3"}], result

    async def sees_a_mistake_and_corrects_it(self):
        result = await self.run("total = sum(row['people'] for row in rows)")
        error = fields(result)["error"]
        assert error["name"] == "TypeError" and "line 1" in error["traceback"] and not failed(result), result
        result = await self.run("total = sum(int(row['people']) for row in rows)\ntotal")
        assert fields(result)["results"][0]["text"] == "1212000", result

    async def installs_packages_into_the_running_sandbox(self):
        result = await self.call("install_package", package_name="pandas matplotlib", timeout_seconds=280)
        installed = fields(result)["installed"]
        assert {"pandas", "matplotlib", "numpy", "pillow"} <= set(installed) and fields(result)["error"] is None, result
        result = await self.run("total", timeout_seconds=60)
        assert "1212000" in text(result), "state survives installing"

    async def shows_a_table_as_text_and_as_a_document(self):
        code = "import pandas as pd\ndata = pd.read_csv('data/cities.csv')\ndata.describe()"
        result = await self.run(code, timeout_seconds=120)
        assert "mean" in text(result) and links(result)[0].name.endswith(".html"), result
        assert "<table" not in text(result), "markup is for the file"

    async def plots_every_open_figure(self):
        code = ("import matplotlib.pyplot as plt\ndata.plot.bar('city', 'people')\nplt.title('cities')\n"
                "plt.figure(); plt.pie(data.people)\nplt.show()")
        result = await self.run(code, timeout_seconds=120)
        assert len(images(result)) == 2 and all(image.startswith(PNG) for image in images(result)), text(result)
        assert fields(result) is None, "clients that read fields only would not see the pictures"
        assert "iVBOR" not in text(result) and "Warning" not in text(result), text(result)
        self.figure = links(result)[0]
        assert images(await self.run("1")) == [], "figures are shown once"

    async def reads_the_artifact(self):
        listed = (await self.session.list_resources()).resources
        assert str(self.figure.uri) in {str(resource.uri) for resource in listed}, listed
        content = (await self.session.read_resource(self.figure.uri)).contents[0]
        assert base64.b64decode(content.blob).startswith(PNG)
        piece = (await self.session.read_resource(str(self.figure.uri) + "?offset=1&length=3")).contents[0]
        assert piece.text == "PNG", piece
        result = await self.call("read_file", file_path=self.figure.name)
        assert images(result)[0].startswith(PNG), result
        templates = await self.session.list_resource_templates()
        assert len(getattr(templates, "resourceTemplates", None) or templates.resource_templates) == 2

    async def sees_a_large_picture_made_smaller(self):
        code = ("import numpy as np\nfrom PIL import Image\n"
                "picture = Image.fromarray(np.random.default_rng(1).integers(0, 255, (900, 900, 3), dtype='uint8'))\npicture")
        result = await self.run(code, timeout_seconds=120)
        (shown,) = images(result)
        assert len(shown) <= 256 << 10 < links(result)[0].size, (len(shown), links(result)[0].size)

    async def hears_of_a_package_that_is_loaded_in_another_version(self):
        result = await self.call("install_package", package_name="six==1.16.0", timeout_seconds=120)
        assert fields(result)["installed"] == {"six": "1.16.0"}, result
        await self.run("import six")
        result = await self.call("install_package", package_name="six==1.17.0", timeout_seconds=120)
        assert "six 1.16.0 is loaded" in text(result) and "1.17.0" in text(result), result

    async def keeps_files_and_packages_when_the_interpreter_crashes(self):
        result = await self.run("import os; os._exit(1)")
        assert failed(result) and "files and packages are kept" in text(result), result
        result = await self.run("import pandas, six; six.__version__, len(pandas.read_csv('data/cities.csv'))",
                                timeout_seconds=120)
        assert "('1.17.0', 3)" in text(result), result

    async def asks_for_the_state_and_closes(self):
        status = fields(await self.call("get_sandbox_status"))
        assert status["packages"]["six"] == "1.17.0" and status["memory_bytes"] > 1 << 20 and status["files"] >= 4, status
        await self.call("close_sandbox")
        result = await self.run("1")
        assert failed(result) and "was closed" in text(result), result
        listed = (await self.session.list_resources()).resources
        assert listed == [], listed

    STEPS = [
        makes_a_sandbox,
        uploads_a_table,
        loads_it_without_packages,
        sees_a_mistake_and_corrects_it,
        installs_packages_into_the_running_sandbox,
        shows_a_table_as_text_and_as_a_document,
        plots_every_open_figure,
        reads_the_artifact,
        sees_a_large_picture_made_smaller,
        hears_of_a_package_that_is_loaded_in_another_version,
        keeps_files_and_packages_when_the_interpreter_crashes,
        asks_for_the_state_and_closes,
    ]


async def main(command, *arguments):
    # By itself the package hands over a few variables only: no proxy, no certificates, no settings of the index.
    server = StdioServerParameters(command=command, args=list(arguments), env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        analyst = Analyst(session)
        for step in Analyst.STEPS:
            try:
                await step(analyst)
                print("ok    ", step.__name__.replace("_", " "), flush=True)
            except Exception:
                print("FAILED", step.__name__, traceback.format_exc(), flush=True)
                return 1
    print("all steps done")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(asyncio.run(main(*sys.argv[1:])))

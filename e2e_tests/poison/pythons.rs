//! Interpreters that are not there are installed by uv from where the user's settings say.

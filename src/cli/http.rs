//! Flags of serving over HTTP.

use std::path::PathBuf;

use clap::Args;

use crate::server::http::Address;

/// How to serve over HTTP.
#[derive(Debug, Args)]
pub struct HttpArgs {
    /// Serve over HTTP instead of standard input and output: a port (of this machine alone), an IP address with a port,
    /// or unix:PATH. Clients need the bearer token: from the variable `MCP_PYTHON_EXEC_SANDBOX_TOKEN`, from
    /// --http-token-file, or one that is made and printed at start
    #[arg(long, value_name = "ADDR")]
    pub http: Option<Address>,
    /// File with the bearer token that only you may read; made with a new token where it is missing
    #[arg(long, value_name = "FILE", requires = "http")]
    pub http_token_file: Option<PathBuf>,
    /// Further name under which clients reach this server; may be repeated
    #[arg(long, value_name = "NAME", requires = "http")]
    pub http_host: Vec<String>,
    /// Web page that may use this server, such as <https://app.example>; may be repeated
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub http_origin: Vec<String>,
}

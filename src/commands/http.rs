//! The MCP server over HTTP: takes the token from where the user put it, listens, and says where.

use std::net::IpAddr;

use crate::cli::http::HttpArgs;
use crate::server::Services;
use crate::server::http::{self, Address, Bounds, Guard, Listener, Token, TokenError};
use crate::settings::Settings;

/// Variable with the token.
const TOKEN: &str = "MCP_PYTHON_EXEC_SANDBOX_TOKEN";

/// Serves until `shutdown` completes.
pub async fn serve(
    services: Services,
    settings: &Settings,
    address: &Address,
    args: HttpArgs,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), String> {
    let (token, shown) = token(&args).map_err(|error| error.to_string())?;
    let listener = Listener::bind(address).await.map_err(|error| error.to_string())?;
    let mut hosts = args.http_host;
    if let Address::Tcp(own) = listener.address() {
        hosts.extend(own_name(own.ip()));
        if !own.ip().is_loopback() {
            eprintln!("note: other machines can reach this address, and the connection is not encrypted");
        }
    }
    eprintln!("serving on {}{}", listener.address(), http::PATH);
    if let Some(shown) = shown {
        eprintln!("token: {shown}");
    }
    let guard = Guard::new(token, hosts, args.http_origin);
    http::serve(services, settings, listener, guard, Bounds::default(), shutdown).await;
    Ok(())
}

/// An address that is listened on is a name of the server; "any address" is none.
fn own_name(address: IpAddr) -> Option<String> {
    (!address.is_unspecified()).then(|| address.to_string())
}

/// The token, and its text where the user has to be told.
fn token(args: &HttpArgs) -> Result<(Token, Option<String>), TokenError> {
    if let Some(path) = &args.http_token_file {
        return Ok((Token::from_file(path)?, None));
    }
    match std::env::var(TOKEN) {
        Ok(text) => Ok((Token::new(&text)?, None)),
        Err(_) => Token::made().map(|(token, text)| (token, Some(text))),
    }
}

//! The client goes away in the middle of a call.

use crate::harness::{Ground, Property, eventually, mcp};

pub const PROPERTY: Property =
    Property::steps("client_gone", "Nothing of a run outlives the client that asked for it", steps);

fn steps(ground: &Ground) -> Result<(), String> {
    let marker = ground.marker();
    let args = [("marker".to_owned(), marker.clone().into()), ("wait".to_owned(), true.into())];
    let script = ground.script(super::daemons::HIDE, &args.into_iter().collect(), &[]);
    let mut server = mcp::Server::start(ground)?;
    server.send_call("execute_python", &serde_json::json!({ "script": script }))?;
    let started = eventually(|| ground.processes_with(&marker).len() == 3);
    server.close();
    let gone = eventually(|| ground.processes_with(&marker).is_empty());
    ground.end_processes_with(&marker);
    match (started, gone) {
        (true, true) => Ok(()),
        (false, _) => Err("the script did not get going".to_owned()),
        (true, false) => Err("processes were left behind".to_owned()),
    }
}

//! Escapes, each tried by a script of its own in a sandbox of its own, after a control outside has shown that the
//! attempt would succeed there. A file for each property; SECURITY.md has the table.
//!
//! Arguments: words that names of properties contain; `--full` or `--confined` for one tier; `--list`.
//!
//! Environment: `TEST_USER` is the ordinary user to run as besides root; `ESCAPE_BINARY`, `ESCAPE_UV` and
//! `ESCAPE_PYTHON` are the server, uv and the Python for controls where the suite runs elsewhere than it was built.

// Properties are data with one shape, whatever a single one of them needs of it.
#![allow(
    clippy::unnecessary_wraps,
    clippy::unused_self,
    clippy::type_complexity,
    reason = "one shape for all"
)]
#![allow(
    clippy::doc_markdown,
    clippy::format_collect,
    clippy::field_reassign_with_default,
    reason = "prose and data"
)]

#[cfg(target_os = "linux")]
mod harness;
#[cfg(target_os = "linux")]
mod situation;
#[path = "../common/skipped.rs"]
#[cfg(not(target_os = "linux"))]
mod skipped;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
use harness::Property;

#[cfg(target_os = "linux")]
macro_rules! properties {
    ($($name:ident)*) => {
        $(mod $name;)*
        /// Every property, in the order of the table in SECURITY.md.
        const ALL: &[&Property] = &[$(&$name::PROPERTY),*];
    };
}

#[cfg(target_os = "linux")]
properties! {
    abstract_sockets
    abstract_sockets_shared
    administration
    asynchronous_calls
    between_runs
    callers_terminal
    capabilities
    changing_root
    client_gone
    control_groups
    crypto_sockets
    daemons
    deadline
    device_nodes
    device_requests
    file_locks
    files_by_handle
    first_process
    foreign_calls
    fork_bomb
    home_of_the_user
    host_tree
    hypervisor_sockets
    inherited_descriptors
    joining_namespaces
    kernel_memory
    kernel_programs
    kernel_settings
    keyrings
    killed_server
    killing_everybody
    laid_ground
    local_sockets
    memory_files
    mounting
    mounting_by_descriptor
    namespaces_by_clone
    namespaces_by_unshare
    netlink
    old_root
    other_processes
    outside_user
    overlay_mounts
    own_executable
    own_namespaces
    packet_filters
    process_options
    processor_features
    races_with_the_kernel
    raising_limits
    rare_sockets
    raw_sockets
    read_only_mappings
    read_only_system
    result_markers
    script_metadata
    secrets_of_the_environment
    services_of_the_host
    set_user_id_files
    shared_memory
    standard_input
    supplementary_groups
    surfaces
    symbolic_links
    sys_folder
    terminal_input
    tracing_processes
    traffic_control
    working_directory
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let filters: Vec<String> = std::env::args().skip(1).collect();
    if filters.iter().any(|word| word == "--list") {
        for property in ALL {
            eprintln!("{}: {}", property.name, property.claim);
        }
        return ExitCode::SUCCESS;
    }
    let has = |flag: &str| filters.iter().any(|word| word == flag);
    let tiers: Vec<bool> = match (has("--full"), has("--confined")) {
        (true, false) => vec![false],
        (false, true) => vec![true],
        _ => vec![false, true],
    };
    let words: Vec<&String> = filters.iter().filter(|word| !word.starts_with('-')).collect();
    let chosen: Vec<&'static Property> = ALL
        .iter()
        .copied()
        .filter(|property| words.is_empty() || words.iter().any(|word| property.name.contains(word.as_str())))
        .collect();
    match run(&chosen, &tiers) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("escape: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
fn run(chosen: &[&'static Property], tiers: &[bool]) -> Result<bool, String> {
    let folder =
        tempfile::Builder::new().prefix("escape-suite-").tempdir().map_err(|error| error.to_string())?;
    let (situations, missing) = situation::all(folder.path(), tiers)?;
    for reason in missing {
        eprintln!("not tried: {reason}");
    }
    Ok(harness::runner::run_all(chosen, &situations))
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    skipped::skipped("escapes: they are tried on the native backend, which only Linux has");
    ExitCode::SUCCESS
}

//! What the engine really enforced, as the container's first process saw it, against what it was asked for. Pure.
//!
//! A layer that is missing and that no container can do without means that nothing is started. A limit that this engine
//! cannot set is said in every report.

use std::collections::HashMap;

use super::failed;
use super::plan::DockerPlan;
use crate::sandbox::spec::{Network, USER_ID};
use crate::sandbox::{LayerState, LayerStatus, StartError};

/// The layers, or what is missing.
pub fn check(facts: &str, plan: &DockerPlan) -> Result<Vec<LayerStatus>, StartError> {
    let facts: HashMap<&str, &str> =
        facts.lines().map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
    let fact = |name: &str| facts.get(name).copied().unwrap_or_default().trim();
    let no_capabilities = |value: &str| !value.is_empty() && value.chars().all(|digit| digit == '0');
    let required = [
        ("read-only root", fact("read-only-root") == "1"),
        ("user without rights", fact("uid") == USER_ID.to_string()),
        ("no capabilities", no_capabilities(fact("CapEff")) && no_capabilities(fact("CapBnd"))),
        ("no new privileges", fact("NoNewPrivs") == "1"),
        ("seccomp", fact("Seccomp") == "2"),
    ];
    if let Some((missing, _)) = required.iter().find(|(_, holds)| !holds) {
        let detail = format!("the engine did not enforce it: {missing}");
        return Err(failed("container", detail));
    }
    let layer = |name: &str, state| LayerStatus { name: name.to_owned(), state };
    let mut layers = vec![layer("container", LayerState::Enforced(None))];
    layers.extend(required.iter().map(|(name, _)| layer(name, LayerState::Enforced(None))));
    layers.push(layer("network", network(plan.network, fact("interfaces"), fact("link-local"))?));
    layers.push(layer("memory limit", limit(fact("memory"), plan.limits.memory)));
    layers.push(layer("process limit", limit(fact("processes"), plan.limits.processes + 1)));
    Ok(layers)
}

/// First ABI with scopes for abstract sockets and signals.
const SCOPES_SINCE: u32 = 6;

/// What the first process added itself.
pub fn landlock(facts: &str) -> LayerStatus {
    let mut words = facts.splitn(3, ' ').skip(1);
    let abi: u32 = words.next().and_then(|number| number.parse().ok()).unwrap_or_default();
    let state = match abi {
        0 => LayerState::Absent(format!("the kernel has none: {}", words.next().unwrap_or_default())),
        _ if abi < SCOPES_SINCE => {
            LayerState::Partial(format!("ABI {abi} has no scopes for abstract sockets and signals"))
        }
        _ => LayerState::Enforced(Some(format!("ABI {abi}"))),
    };
    LayerStatus { name: "landlock".to_owned(), state }
}

fn network(asked: Network, interfaces: &str, link_local: &str) -> Result<LayerState, StartError> {
    let alone = interfaces.split_whitespace().all(|name| name == "lo" || is_idle_tunnel(name));
    match asked {
        Network::Host | Network::Outbound if link_local == "closed" => {
            Ok(LayerState::Enforced(Some("a bridge, alone".to_owned())))
        }
        Network::Host | Network::Outbound => Ok(LayerState::Partial(
            "the engine's default network: other containers and link-local addresses can be reached"
                .to_owned(),
        )),
        Network::None if alone => Ok(LayerState::Enforced(Some("none".to_owned()))),
        Network::None => Err(failed(
            "container",
            format!("the engine gave it a network ({interfaces}) although none was asked for"),
        )),
    }
}

/// Devices that some kernels make in every new network namespace; they lead nowhere.
fn is_idle_tunnel(name: &str) -> bool {
    ["tunl", "gre", "gretap", "erspan", "ip_vti", "ip6_vti", "sit", "ip6tnl", "ip6gre"]
        .iter()
        .any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit())))
        || (name.strip_prefix("ifb").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit())))
}

fn limit(seen: &str, asked: u64) -> LayerState {
    match seen.parse::<u64>() {
        Ok(seen) if seen <= asked => LayerState::Enforced(None),
        _ if seen.is_empty() => LayerState::Partial("the container cannot see whether it holds".to_owned()),
        _ => LayerState::Absent("this engine does not set it".to_owned()),
    }
}

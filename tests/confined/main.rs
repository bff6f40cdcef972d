//! The confined tier: what holds where namespaces are refused, for an ordinary user and for a container's root.
#![cfg(all(target_os = "linux", feature = "native"))]

mod ending;
mod holes;
mod host;
mod programs;
mod selection;

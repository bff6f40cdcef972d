//! What every property is made of and run by: the claim (`property`), the place where it is tried (`ground`), one
//! layer alone (`alone`), what the machine lacks (`machine`), and the judging and counting (`runner`).

pub mod alone;
pub mod ground;
pub mod machine;
pub mod mcp;
pub mod property;
pub mod runner;

pub use ground::{Ground, Options, eventually, python};
pub use property::{Case, Need, Property, Stage, case};

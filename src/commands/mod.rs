//! What a person types, as functions that return text: the command line only prints it.
pub mod policy;

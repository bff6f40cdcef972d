//! The door of the program.
fn main() {}

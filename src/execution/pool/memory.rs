//! Whether memory is scarce, on this machine or in the container that this process is in.

use crate::sandbox::machine::Memory;

/// Below this part of all memory the pool gives its own back.
const PART: u64 = 10;

/// Whether less than a tenth of the memory is available.
pub fn is_scarce() -> bool {
    // Where the machine does not tell, the bound on the pool's size has to do.
    Memory::now().into_iter().any(scarce)
}

fn scarce(memory: Memory) -> bool {
    memory.available < memory.total / PART
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_the_border() {
        assert!(!scarce(Memory { total: 1000, available: 100 }));
        assert!(scarce(Memory { total: 1000, available: 99 }));
    }
}

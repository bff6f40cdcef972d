//! Whether memory is scarce on this machine.

/// Below this part of all memory the pool gives its own back.
const PART: u64 = 10;

/// Whether less than a tenth of the memory is available.
pub fn is_scarce() -> bool {
    // Where the machine does not tell, the bound on the pool's size has to do.
    std::fs::read_to_string("/proc/meminfo").is_ok_and(|text| scarce(&text))
}

fn scarce(meminfo: &str) -> bool {
    let kilobytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    match (kilobytes("MemTotal:"), kilobytes("MemAvailable:")) {
        (Some(total), Some(available)) => available < total / PART,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::scarce;

    #[test]
    fn a_tenth_is_the_border() {
        assert!(!scarce("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 100 kB\n"));
        assert!(scarce("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 99 kB\n"));
        assert!(!scarce(""));
    }
}

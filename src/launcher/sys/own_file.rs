//! The program's own file in memory. What a start or a call needs of it, relocations and the reading of flags among them, is most of
//! what an idle process would keep mapped.

use std::ffi::c_void;
use std::io;

/// A mapping of this process.
struct Mapping<'a> {
    start: usize,
    end: usize,
    access: &'a str,
    offset: usize,
    path: &'a str,
}

/// Unmaps the pages of the program's code and constants, which come back from the file as they are used: one fault for
/// every 64 KiB. Said to the kernel once a start is over, and when a server has become idle.
pub fn give_back() -> io::Result<()> {
    let table = std::fs::read_to_string("/proc/self/maps")?;
    for part in untouched(&table, give_back as *const () as usize) {
        // SAFETY: the range is a private mapping of a file that is never written to (constants from the beginning of the
        // file, and code), so every page that is dropped is read from the file again, the same.
        let done =
            unsafe { libc::madvise(part.start as *mut c_void, part.end - part.start, libc::MADV_DONTNEED) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The mappings of the file that holds this address whose memory is only ever the file's. Constants that were relocated
/// at the start are read-only by now, but not the file's any more: they lie behind the code.
fn untouched(table: &str, address: usize) -> Vec<Mapping<'_>> {
    let all: Vec<_> = table.lines().filter_map(mapping).collect();
    let Some(code) = all.iter().find(|one| (one.start..one.end).contains(&address)) else {
        return Vec::new();
    };
    let path = code.path;
    let is_constant = |one: &Mapping<'_>| one.offset == 0 && one.access == "r--p";
    let is_code = |one: &Mapping<'_>| one.access == "r-xp";
    all.into_iter().filter(|one| one.path == path && (is_constant(one) || is_code(one))).collect()
}

/// A line such as `55d0c0a00000-55d0c0d68000 r--p 00000000 fe:00 131 /usr/bin/program`.
fn mapping(line: &str) -> Option<Mapping<'_>> {
    let mut words = line.splitn(5, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let (access, offset, _device) = (words.next()?, words.next()?, words.next()?);
    let path = words.next()?.split_once(' ')?.1.trim_start();
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(Mapping { start: number(start)?, end: number(end)?, access, offset: number(offset)?, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
100000-468000 r--p 00000000 fe:00 131                       /opt/a program
468000-ae1000 r-xp 00367000 fe:00 131                       /opt/a program
ae1000-b72000 r--p 009e0000 fe:00 131                       /opt/a program
b72000-b74000 rw-p 00a6f000 fe:00 131                       /opt/a program
b74000-b75000 rw-p 00000000 00:00 0 
c00000-c10000 rw-p 00000000 00:00 0                         [heap]
d00000-d10000 r-xp 00000000 fe:00 132                       /lib/libc.so.6
";

    #[test]
    fn code_and_constants_are_given_back_and_relocated_data_is_not() {
        let ranges: Vec<_> = untouched(TABLE, 0x468_010).iter().map(|one| (one.start, one.end)).collect();
        assert_eq!(ranges, [(0x10_0000, 0x46_8000), (0x46_8000, 0xae_1000)]);
        assert!(untouched(TABLE, 0x5).is_empty());
    }

    #[test]
    fn a_process_goes_on_with_its_file_not_mapped() {
        give_back().unwrap();
        let table = std::fs::read_to_string("/proc/self/maps").unwrap();
        let parts = untouched(&table, give_back as *const () as usize);
        assert_eq!(parts.len(), 2, "{table}");
    }
}

//! The quarantine file with any content: a line is added once, unless its point is already in a
//! whole line; then none is missing.
use promkairos::storage::cassandra::quarantine::missing;

/// The content of the file, and after a zero byte the lines that it has to contain.
pub(crate) fn check(data: &[u8]) {
    let split = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (file, wanted) = data.split_at(split);
    let Ok(wanted) = str::from_utf8(wanted.get(1..).unwrap_or_default()) else { return };
    let lines: Vec<String> = wanted.lines().map(|line| format!("{line}\n")).collect();
    let (whole, new) = missing(file, &lines).expect("bytes in memory");
    let end = file.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    assert_eq!(whole, end as u64, "a line that is not whole does not count");
    let standing = |line: &&str| {
        file[..end].split_inclusive(|byte| *byte == b'\n').any(|of| of == line.as_bytes())
    };
    assert!(!new.iter().any(standing), "{new:?}");
    let after = [&file[..end], new.concat().as_bytes()].concat();
    assert_eq!(
        missing(&after[..], &lines).expect("bytes in memory"),
        (after.len() as u64, Vec::new())
    );
    // All of them, as an empty file shows, except for lines that it contains.
    let (_, all) = missing(&b""[..], &lines).expect("bytes in memory");
    assert!(new.iter().all(|line| lines.iter().any(|one| one == line)) && new.len() <= all.len());
}

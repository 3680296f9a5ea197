//! The file that names the owner of a log: any text is read or refused; what is read is written
//! unchanged, and any name that a cluster can have is read back.
use promkairos::server::wal_owner::{decode, encode};

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some((keyspace, cluster)) = decode(text) {
        assert_eq!(encode(&keyspace, cluster.as_deref()), text);
    }
    let (keyspace, cluster) = ("kairosdb", text);
    let written = encode(keyspace, Some(cluster));
    assert_eq!(decode(&written), Some((keyspace.to_owned(), Some(cluster.to_owned()))));
    if !cluster.ends_with('\n') {
        assert_eq!(decode(&written[..written.len() - 1]), None, "its end is missing");
    }
}

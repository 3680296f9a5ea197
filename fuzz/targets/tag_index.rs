//! A keyspace's record of the tag index, in JSON that any adapter may have written: it is read or
//! refused; another format is always refused; what is read is written and read again as the same.
use promkairos::storage::cassandra::tag_index_document::{Adapter, Document, decode, encode};

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(document) = decode::<Document>(text) {
        let written = encode(&document);
        assert!(written.starts_with("{\"format\":1,"), "{written}");
        assert_eq!(decode::<Document>(&written).as_ref(), Ok(&document));
    }
    if let Ok(adapter) = decode::<Adapter>(text) {
        let written = encode(&adapter);
        assert!(written.starts_with("{\"format\":1,"), "{written}");
        assert_eq!(decode::<Adapter>(&written).as_ref(), Ok(&adapter));
    }
}

//! The messages under `proto/generated` are those of `proto/*.proto`.
//!
//! `UPDATE_EXPECT=1` writes them anew.

use std::fs;
use std::path::Path;

const DEFINITIONS: [&str; 3] = ["metrics.proto", "prometheus.proto", "write_v2.proto"];

#[test]
fn the_generated_messages_are_those_of_their_definitions() {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let generated = tempfile::tempdir().expect("a folder");
    let messages = protox::compile(DEFINITIONS, [&proto]).expect("valid definitions");
    let mut config = prost_build::Config::new();
    config.out_dir(generated.path()).compile_fds(messages).expect("written");
    let mut files = 0;
    for file in fs::read_dir(generated.path()).expect("a folder") {
        let file = file.expect("an entry");
        let committed = proto.join("generated").join(file.file_name());
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::copy(file.path(), &committed).expect("copied");
        }
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        assert_eq!(
            read(committed),
            read(file.path()),
            "UPDATE_EXPECT=1 writes {:?}",
            file.file_name()
        );
        files += 1;
    }
    assert_eq!(fs::read_dir(proto.join("generated")).expect("a folder").count(), files);
}

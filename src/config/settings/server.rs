//! Where the server listens, and which store it has.

use super::super::setting::Form::{Switch, Text};
use super::super::setting::{FILE, Setting, setting};

/// Settings of the address, the store and its folder.
pub(super) const SETTINGS: &[Setting] = &[
    setting("listen", Text("HOST:PORT"), Some("127.0.0.1:9201")).help("Address to listen on"),
    setting("kairosdb-listen", Text("HOST:PORT"), None)
        .help("Address that serves only KairosDB's REST API, such as 127.0.0.1:8080"),
    setting("kairosdb-telnet-listen", Text("HOST:PORT"), None)
        .help("Address that takes KairosDB's telnet lines, such as 127.0.0.1:4242; they have no login"),
    setting("allow-listen-without-login", Switch, Some("false")).help(
        "Let protocols without a login (--kairosdb-telnet-listen) listen on addresses that other machines reach",
    ),
    setting("web-config-file", FILE, None).help(
        "YAML file as Prometheus has it: TLS, users, and rights of users and tokens; read \
         again when it changes",
    ),
    setting("data-dir", Text("DIR"), Some("./data"))
        .help("Folder of the log and of the embedded store"),
    setting("store", Text("STORE"), Some("embedded"))
        .help("Where samples live: embedded or cassandra")
        .one_of(&["embedded", "cassandra"]),
    setting("ack", Text("ACK"), None)
        .help(
            "What an acknowledgement means: wal (on this disk) or store (in Cassandra). \
             Embedded knows only wal; Cassandra's default is store",
        )
        .one_of(&["wal", "store"]),
];

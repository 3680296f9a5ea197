//! Commands that only ask or print: `check-config`, `health`, and the output generated from the definitions of the
//! command line: the page of all settings, completions, manual pages.
//!
//! `UPDATE_EXPECT=1` writes the page anew.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::api::run;
use super::support::promkairos::{Backend, Promkairos};
use super::tidy::root;

#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let output = run(root(), arguments, &[]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn settings_in_force_are_printed_with_their_sources() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
    write("password", "do-not-show\n").expect("written");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.path().join("password"), private).expect("ours");
    let settings = "\nstore = \"cassandra\"\ncassandra_username = \"u\"\n\
                    cassandra_password_file = \"password\"\nretention = \"2y\"\n";
    write("p.toml", settings).expect("written");
    let output = run(
        folder.path(),
        &["check-config", "p.toml", "--listen=127.0.0.1:1"],
        &[("PROMKAIROS_RETENTION", "1y"), ("PROMKAIROS_CONFIG", "absent.toml")],
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout).expect("UTF-8"),
        "The settings are valid.\n\
         listen = \"127.0.0.1:1\"                # the command line\n\
         store = \"cassandra\"                   # p.toml:2\n\
         cassandra_username = \"u\"              # p.toml:3\n\
         cassandra_password_file = \"password\"  # p.toml:4\n\
         retention = \"1y\"                      # the environment\n\
         All others have their defaults.\n"
    );
    assert!(output.stderr.is_empty());
    let output = run(folder.path(), &["check-config"], &[]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(text, "The settings are valid.\nAll have their defaults.\n");
    // No folder, no port and no Cassandra was touched.
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
}

/// `check-config` prints the warnings of a start (see `memory`). They do not make it fail.
#[test]
fn check_config_prints_the_warnings_of_a_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = "store = \"cassandra\"\nmemory_limit = \"1000TiB\"\n\
                    cassandra_read_consistency = \"ONE\"\n";
    std::fs::write(folder.path().join("p.toml"), settings).expect("written");
    let cluster = "[{name = \"old\", contact_points = [\"b:1\"]}]";
    let variables = [("PROMKAIROS_CASSANDRA_READ_CLUSTERS", cluster)];
    let output = run(folder.path(), &["check-config", "p.toml"], &variables);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let seen: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("Warning: ")).collect();
    let why = "reads may miss what was acknowledged where there is more than one copy: R + W > RF is \
               not given";
    let levels =
        |[read, write]: [&str; 2]| format!("with {read} ONE and {write} LOCAL_QUORUM {why}");
    let own = levels(["cassandra-read-consistency", "cassandra-write-consistency"]);
    let of_old = levels(["read_consistency", "write_consistency"]);
    assert_eq!(seen.len(), 3, "{text}");
    assert!(seen[0].starts_with("the setting memory-limit is 1000TiB, and "), "{text}");
    assert_eq!(seen[1..], [own, format!("read cluster \"old\": {of_old}")]);
    assert!(output.stderr.is_empty());
}

#[test]
fn what_serve_would_refuse_is_refused_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |text: &str, arguments: &[&str], want: &str| {
        std::fs::write(folder.path().join("p.toml"), text).expect("written");
        let arguments = [&["check-config", "p.toml"][..], arguments].concat();
        let output = run(folder.path(), &arguments, &[]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(said, format!("promkairos: {want}\n"));
    };
    check(
        "listen = \"a:1\"\nretenton = \"1y\"\n",
        &[],
        "p.toml:2: unknown setting retenton, did you mean retention?",
    );
    check(
        "\nwal_limit = \"1MiB\"\n",
        &[],
        "wal_limit = \"1MiB\" in p.toml:2: must be at least 64MiB",
    );
    check(
        "cassandra_keyspace = \"k\"\n",
        &[],
        "cassandra_keyspace = \"k\" in p.toml:1: needs --store cassandra",
    );
    check(
        "listen = \"a:1\"\nstore = \"embedded\"\nlisten = \"b:2\"\n",
        &[],
        "p.toml:3: duplicate key listen",
    );
    check("listen = [\"a:1\", \"b:2\"]\n", &[], "p.toml:1: listen must not be a list");
    check(
        "\nmax_connections = 1.5\n",
        &[],
        "max_connections = \"1.5\" in p.toml:2: must be a whole number of at least 1",
    );
    check(
        "query_max_depth = 0x186a0\n",
        &[],
        "query_max_depth = \"100000\" in p.toml:1: must be at most 500",
    );
    check(
        "store = \"cassandra\"\ncassandra_username = \"u\"\ncassandra_password_file = \"absent\"\n",
        &[],
        "cassandra_password_file = \"absent\" in p.toml:3: No such file or directory (os error 2)",
    );
    std::fs::write(folder.path().join("empty"), "\n").expect("written");
    check(
        "store = \"cassandra\"\ncassandra_username = \"u\"\ncassandra_password_file = \"empty\"\n",
        &[],
        "cassandra_password_file = \"empty\" in p.toml:3: the file is empty",
    );
    check("", &["--ack=stroe"], "--ack \"stroe\": must be one of wal, store");
    check(
        "self_scrape_interval = \"1ms\"",
        &[],
        "self_scrape_interval = \"1ms\" in p.toml:1: must be at least 1s, or 0 for never",
    );
    let output = run(folder.path(), &["check-config", "absent.toml"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(said, "promkairos: absent.toml: No such file or directory (os error 2)\n");
    // Errors that only the store can find.
    let arguments = ["check-config", "--store=cassandra", "--retention=30y"];
    let checked = run(folder.path(), &arguments, &[]);
    let served =
        run(folder.path(), &["--store=cassandra", "--retention=30y", "--listen=127.0.0.1:0"], &[]);
    assert_eq!(checked.status.code(), Some(2));
    let last = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(last(&checked.stderr), last(&served.stderr));
}

/// A password in the wrong place is never printed.
#[test]
fn values_in_tables_are_never_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |text: &str, variables: &[(&str, &str)], want: &str| {
        std::fs::write(folder.path().join("p.toml"), text).expect("written");
        let arguments = ["check-config", "p.toml", "--store=cassandra"];
        let output = run(folder.path(), &arguments, variables);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(said, format!("promkairos: {want}\n"));
    };
    let cluster = "[[cassandra_read_clusters]]\nname = \"2024\"\ncontact_points = [\"old:9042\"]\n";
    let unknown = "unknown entry, did you mean password_file?";
    check(
        &format!("{cluster}password = \"hunter2\"\n"),
        &[],
        &format!("cassandra_read_clusters[0].password in p.toml:4: {unknown}"),
    );
    check(
        "[cassandra_metadata_cluster]\npasword = \"hunter2\"\ncontact_points = [\"a\"]\n",
        &[],
        &format!("cassandra_metadata_cluster.pasword in p.toml:2: {unknown}"),
    );
    check(
        "",
        &[(
            "PROMKAIROS_CASSANDRA_READ_CLUSTERS",
            "[{name = \"a\", contact_points = \"b\", password = \"hunter2\"}]",
        )],
        &format!("PROMKAIROS_CASSANDRA_READ_CLUSTERS[0].password: {unknown}"),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_an_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Promkairos::ready(folder.path(), &Backend::Embedded, &[]).await;
    let ask = |url: &str, more: &[&str]| {
        let arguments = [&["health", "--server", url][..], more].concat();
        let output = run(root(), &arguments, &[]);
        (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
    };
    let url = server.url("");
    assert_eq!(ask(&url, &[]), (Some(0), "Prometheus Server is Healthy.\n".into()));
    assert_eq!(ask(&url, &["--ready"]), (Some(0), "Prometheus Server is Ready.\n".into()));
    // Without --server the address comes from the settings.
    let port = server.address.port();
    for listen in [format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}")] {
        let output = run(root(), &["health"], &[("PROMKAIROS_LISTEN", &listen)]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let flag = format!("--listen={listen}");
        let output = run(root(), &["health", "--ready", &flag], &[]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    // A server that answers otherwise is not healthy: there is no such page.
    let (code, said) = ask(&server.url("/nowhere"), &[]);
    assert_eq!((code, &*said), (Some(1), "404: 404 page not found\n"));
    // Neither is a server that accepts the connection and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let (code, said) = ask(&url, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with(&url), "{said}");
}

#[test]
fn health_sends_no_credentials_and_refuses_wrong_arguments() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("token"), "t0k3n\n").expect("written");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("it asks");
        let lines = BufReader::new(&stream).lines().map(|line| line.expect("a line"));
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nwell\n";
        (&stream).write_all(answer).expect("it takes that");
        head
    });
    let ask = |file: &str| run(folder.path(), &["health", "--server", &url, file], &[]);
    let output = ask("--server-token-file=token");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"well\n");
    let head = server.join().expect("it was asked");
    assert_eq!(head[0], "GET /-/healthy HTTP/1.1", "{head:?}");
    let sent = head.join("\n").to_lowercase();
    assert!(!sent.contains("authorization") && !sent.contains("t0k3n"), "{sent}");
    // Nobody listens any more: errors in the command are found before it connects.
    for file in ["--server-token-file=absent", "--server-ca=absent"] {
        let output = ask(file);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("absent: No such file"), "{file}");
    }
    for url in ["nonsense", "", "ftp://x"] {
        let output = run(folder.path(), &["health", "--server", url], &[]);
        assert_eq!(output.status.code(), Some(2), "{url}: {output:?}");
    }
    let output = run(folder.path(), &["health", "--server=127.0.0.1:9201"], &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let why = "--server \"127.0.0.1:9201\": must be http://HOST:PORT; see promkairos health --help";
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("promkairos: {why}\n"));
}

#[test]
fn a_login_in_a_url_is_refused_and_not_repeated() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |arguments: &[&str], flag: &str| {
        let output = run(folder.path(), arguments, &[]);
        let command = arguments.iter().take_while(|word| !word.starts_with('-'));
        let command = command.copied().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        let why = "no user and no password may stand in a URL: --server-username and \
                   --server-password-file log in; see promkairos";
        assert_eq!(said, format!("promkairos: {flag}: {why} {command} --help\n"));
    };
    for url in ["http://op:hunter2@127.0.0.1:1", "https://op:hunter2@127.0.0.1:1/x"] {
        check(&["health", "--server", url], "--server");
        check(&["index", "status", "--server", url], "--server");
        check(&["copy", "--from", url, "--to=embedded:x", "--json"], "--from");
        check(&["copy", "--from=embedded:x", "--to", url], "--to");
    }
    // No file with progress was written either.
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn the_page_of_settings_is_what_the_program_prints() {
    let page = printed(&["settings"]);
    for setting in promkairos::config::SETTINGS {
        let row = ["` ", "[="].map(|end| format!("\n| `--{}{end}", setting.name));
        assert!(row.iter().any(|row| page.contains(row)), "{}", setting.name);
    }
    for table in promkairos::config::key_tables() {
        let title = match table.place {
            "" => format!("\n### `--{}`\n", table.setting),
            place => format!("\n### `{place}`\n"),
        };
        let (_, below) = page.split_once(&title).expect(&title);
        let below = below.split("\n### ").next().expect("a part");
        for key in table.keys {
            assert!(below.contains(&format!("\n| `{}` |", key.name)), "{title} {}", key.name);
        }
    }
    let path = root().join("docs/settings.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &page).expect("written");
    }
    let written = std::fs::read_to_string(&path).expect("docs/settings.md");
    assert!(written == page, "write it anew: promkairos settings > docs/settings.md");
}

#[test]
fn the_help_of_a_command_that_uses_no_setting_shows_none() {
    for command in [&["health"][..], &["delete"], &["explain"], &["index", "build"], &["man"]] {
        let help = printed(&[command, &["--help"]].concat());
        assert!(!help.contains("--wal-limit") && !help.contains("--store"), "{help}");
        assert!(help.lines().count() < 60, "{help}");
    }
    assert!(printed(&["health", "--help"]).contains("--server-ca"));
    // Flags that a help page does not list are accepted nevertheless.
    let output = run(root(), &["completions", "bash", "--store=embedded"], &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(printed(&["serve", "--help"]).contains("--wal-limit"));
}

#[test]
fn completions_know_commands_and_flags() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for word in ["check-config", "data-dir", "cassandra-contact-points", "doctor"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let script = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(script.path(), printed(&["completions", "bash"])).expect("written");
    let complete = |words: &str, last: &str, before: &str| {
        let asked = format!(
            "source \"$1\"; COMP_WORDS=(promkairos {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             cd /; _promkairos promkairos '{last}' '{before}'; echo \"${{COMPREPLY[@]}}\""
        );
        let bash = Command::new("bash").args(["-c", &asked, "bash"]).arg(script.path()).output();
        let output = bash.expect("bash");
        // Commands for interactive shells fail in this one, which does not change the words.
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(complete("--wal-", "--wal-", "promkairos"), "--wal-limit\n");
    assert_eq!(complete("--store ''", "", "--store"), "embedded cassandra\n");
    assert_eq!(complete("serve --ack s", "s", "--ack"), "store\n");
    // Completion does not list the files of the current folder.
    assert_eq!(complete("--listen ''", "", "--listen").trim(), "");
    assert!(complete("--config ''", "", "--config").contains("tmp"));
}

#[test]
fn manual_pages_describe_what_help_describes() {
    let page = printed(&["man"]);
    assert!(page.contains("\n.TH promkairos 1 "), "{page}");
    for setting in promkairos::config::SETTINGS {
        let flag = format!("--{}", setting.name).replace('-', "\\-");
        assert!(page.contains(&flag), "{flag}");
    }
    assert!(printed(&["man", "doctor"]).contains("\n.TH promkairos-doctor 1 "));
    assert!(printed(&["man", "index", "build"]).contains("\n.TH promkairos-index-build 1 "));
    let output = run(root(), &["man", "nonsense"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(said, "promkairos: \"nonsense\" is no command; see promkairos man --help\n");
}

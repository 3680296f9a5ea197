//! The Docker files, read as data: the binary knows every flag, some service listens at every port
//! and host, every path exists. Nothing here runs a container.
//!
//! The files for a machine without containers are tested in [`system`].

mod system;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::tidy::{flags, root};

#[test]
fn the_compose_file_passes_only_known_flags() {
    let compose = yaml("docker-compose.yml");
    let service = &compose["services"]["promkairos"];
    let used = flags(&service["command"].to_string());
    assert!(used.len() >= 5, "{used:?}");
    assert_known(&used);
}

#[test]
fn the_dockerfile_keeps_its_settings_beside_arguments_and_copies_existing_files() {
    let file = text("Dockerfile");
    // Arguments of `docker run` replace a CMD.
    assert!(instructions(&file, "CMD").is_empty());
    let settings = instructions(&file, "ENV").join(" ");
    let mut settings: Vec<&str> = settings.split_whitespace().collect();
    settings.sort_unstable();
    assert_eq!(settings, ["PROMKAIROS_DATA_DIR=/data", "PROMKAIROS_LISTEN=0.0.0.0:9201"]);
    let known: Vec<String> = promkairos::config::SETTINGS.iter().map(|s| s.variable()).collect();
    for setting in settings {
        let name = setting.split('=').next().expect("a name");
        assert!(known.iter().any(|known| known == name), "{name}");
    }
    assert_eq!(instructions(&file, "EXPOSE"), ["9201"]);
    assert_eq!(instructions(&file, "USER"), ["promkairos"]);
    let health = instructions(&file, "HEALTHCHECK");
    assert_eq!(health, ["--start-period=60s CMD [\"promkairos\", \"health\"]"]);
    assert_eq!(instructions(&file, "VOLUME"), ["/data"]);
    assert_eq!(instructions(&file, "ENTRYPOINT"), ["[\"promkairos\"]"]);
    copied_paths_exist(&file);
    let builder = instructions(&file, "FROM").remove(0);
    let version = text("Cargo.toml");
    let version = version.lines().find_map(|line| line.strip_prefix("rust-version = \""));
    let version = version.expect("a rust-version").trim_end_matches('"');
    assert!(builder.starts_with(&format!("rust:{version}-")), "{builder}");
}

#[test]
fn the_image_holds_every_member_of_the_workspace() {
    let manifest: toml::Table = text("Cargo.toml").parse().expect("TOML");
    let members = manifest["workspace"]["members"].as_array().expect("a list");
    let members = members.iter().map(|member| member.as_str().expect("a path").to_owned());
    let members: Vec<String> = members.collect();
    assert!(members.len() > 1, "{members:?}");
    let dockerfile = text("Dockerfile");
    let copied: BTreeSet<String> = copied_paths(&dockerfile).collect();
    // The inputs of the build apart from the members of the workspace.
    for path in ["Cargo.toml", "Cargo.lock", "build.rs", "proto", "src", "README.md"] {
        assert!(copied.contains(path), "{path} is not copied: {copied:?}");
    }
    for member in &members {
        let mut folders = Path::new(member).ancestors().filter_map(Path::to_str);
        assert!(
            folders.any(|folder| copied.contains(folder)),
            "{member} is not copied: {copied:?}"
        );
    }
}

#[test]
fn the_kairosdb_image_copies_existing_files() {
    let file = text("docker/kairosdb.Dockerfile");
    copied_paths_exist(&file);
    assert!(root().join("tests/peers/kairosdb.sh").exists());
    assert!(text("docker/kairosdb.conf").contains("jetty.port: 8080"));
}

#[test]
fn the_compose_file_mounts_and_builds_existing_paths() {
    let compose = yaml("docker-compose.yml");
    let services = compose["services"].as_object().expect("services");
    let volumes = compose["volumes"].as_object().expect("volumes");
    for (name, service) in services {
        for mount in strings(&service["volumes"]) {
            let source = mount.split(':').next().expect("a source");
            match source.strip_prefix("./") {
                Some(path) => assert!(root().join(path).exists(), "{name}: {mount}"),
                None => assert!(volumes.contains_key(source), "{name}: {mount}"),
            }
        }
        match &service["build"] {
            Value::Null => assert!(service["image"].is_string(), "{name}"),
            Value::String(context) => {
                assert!(root().join(context).join("Dockerfile").exists(), "{name}");
            }
            build => {
                let file = build["dockerfile"].as_str().expect("a dockerfile");
                assert!(root().join(file).exists(), "{name}: {file}");
            }
        }
        let needed = match &service["depends_on"] {
            Value::Object(needed) => needed.keys().cloned().collect(),
            list => strings(list),
        };
        assert!(needed.iter().all(|other| services.contains_key(other)), "{name}: {needed:?}");
    }
    assert_eq!(compose["services"]["kairosdb"]["profiles"][0], "kairosdb");
    // Behind a log, KairosDB sees only flushed data.
    let command = strings(&compose["services"]["promkairos"]["command"]);
    assert!(command.contains(&"--flush-interval=1m".to_owned()), "{command:?}");
}

/// The file that names the folder of dashboards for Grafana.
const DASHBOARDS: &str = "grafana/provisioning/dashboards/promkairos.yml";

#[test]
fn the_compose_file_mounts_where_the_programs_look() {
    // Paths that the images bring themselves.
    let of_images = ["/var/lib/cassandra", "/var/lib/grafana", "/etc/grafana/provisioning"];
    let compose = yaml("docker-compose.yml");
    let mut mounts = 0;
    for (name, service) in compose["services"].as_object().expect("services") {
        let file = service["build"]["dockerfile"].as_str().map(text).unwrap_or_default();
        let read = match name.as_str() {
            "grafana" => text(DASHBOARDS),
            "prometheus" => text("docker/prometheus.yml"),
            _ => String::new(),
        };
        let said = [strings(&service["command"]).join("\n"), file, read].join("\n");
        let is_path = |c: char| c.is_alphanumeric() || "/._-".contains(c);
        let paths: BTreeSet<&str> = said.split(|c| !is_path(c)).chain(of_images).collect();
        for mount in strings(&service["volumes"]) {
            let target = mount.split(':').nth(1).expect("a target");
            assert!(paths.contains(target), "{name}: nothing looks into {target}");
            mounts += 1;
        }
    }
    assert!(mounts >= 7, "{mounts}");
}

#[test]
fn every_address_is_served() {
    let served = ["cassandra:9042", "promkairos:9201", "prometheus:9090", "localhost:9090"];
    for file in [
        "docker-compose.yml",
        "docker/prometheus.yml",
        "docker/kairosdb.conf",
        "grafana/provisioning/datasources/prometheus.yml",
    ] {
        let text = text(file);
        let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let is_address = |c: char| c.is_alphanumeric() || ":.".contains(c);
        let words: Vec<&str> =
            code.flat_map(|line| line.split(move |c: char| !is_address(c))).collect();
        for host in ["cassandra", "promkairos", "prometheus", "localhost", "kairosdb", "grafana"] {
            for word in words.iter().filter(|word| word.starts_with(&format!("{host}:"))) {
                let port = word.rsplit(':').next().unwrap_or_default();
                if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
                    assert!(served.contains(word), "{file}: nobody serves {word}");
                }
            }
        }
    }
    let compose = yaml("docker-compose.yml");
    for (service, port) in
        [("promkairos", "9201"), ("prometheus", "9090"), ("grafana", "3000"), ("kairosdb", "8080")]
    {
        // No service asks for credentials, so ports are published to this machine only.
        let published = format!("127.0.0.1:{port}:{port}");
        assert_eq!(strings(&compose["services"][service]["ports"]), [published]);
    }
    assert_eq!(text("docker-compose.yml").matches("ports:").count(), 4);
    let command = strings(&compose["services"]["promkairos"]["command"]);
    assert!(command.contains(&"--listen=0.0.0.0:9201".to_owned()), "{command:?}");
}

#[test]
fn prometheus_and_grafana_are_pointed_at_existing_services() {
    let prometheus = yaml("docker/prometheus.yml");
    assert_eq!(strings(&prometheus["rule_files"]), ["/etc/prometheus/alerts.yml"]);
    let write = &prometheus["remote_write"][0];
    assert_eq!(write["url"], "http://promkairos:9201/api/v1/write");
    assert_eq!(write["protobuf_message"], "io.prometheus.write.v2.Request");
    assert_eq!(prometheus["remote_read"][0]["url"], "http://promkairos:9201/api/v1/read");
    let grafana = yaml("grafana/provisioning/datasources/prometheus.yml");
    assert_eq!(grafana["apiVersion"], 1);
    assert_eq!(grafana["datasources"][0]["type"], "prometheus");
    assert_eq!(grafana["datasources"][0]["url"], "http://prometheus:9090");
    assert_eq!(grafana["datasources"][1]["type"], "prometheus");
    assert_eq!(grafana["datasources"][1]["url"], "http://promkairos:9201");
}

fn assert_known(used: &BTreeSet<String>) {
    let help = Command::new(env!("CARGO_BIN_EXE_promkairos")).arg("--help").output();
    let known = flags(&String::from_utf8(help.expect("it runs").stdout).expect("UTF-8"));
    let unknown: Vec<&String> = used.difference(&known).collect();
    assert!(unknown.is_empty(), "promkairos --help does not know {unknown:?}");
}

fn copied_paths_exist(dockerfile: &str) {
    assert!(copied_paths(dockerfile).count() > 0);
    for source in copied_paths(dockerfile) {
        assert!(root().join(&source).exists(), "COPY: no {source}");
    }
}

/// The paths that are copied from the project.
fn copied_paths(dockerfile: &str) -> impl Iterator<Item = String> {
    let copies = instructions(dockerfile, "COPY").into_iter();
    copies.filter(|copy| !copy.starts_with("--from=")).flat_map(|copy| {
        let mut words: Vec<String> = copy.split_whitespace().map(str::to_owned).collect();
        words.pop().expect("a destination");
        words
    })
}

/// The arguments of each instruction with this name.
fn instructions(dockerfile: &str, name: &str) -> Vec<String> {
    let joined = dockerfile.replace("\\\n", " ");
    let of_name = |line: &str| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
    joined.lines().filter_map(of_name).collect()
}

fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| item.as_str().expect("a string").to_owned()).collect()
}

fn yaml(path: &str) -> Value {
    serde_norway::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

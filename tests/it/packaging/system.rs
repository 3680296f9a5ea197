//! The files for a machine without containers: systemd's own tools check the unit, `check-config`
//! the file of settings, and the files listed for the Debian package must exist.
//!
//! Nothing here installs a package or starts the unit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::text;
use crate::docs::{commands, help, links};
use crate::tidy::root;

const UNIT: &str = "packaging/promkairos.service";
const SETTINGS: &str = "packaging/promkairos.toml";
const BINARY: &str = env!("CARGO_BIN_EXE_promkairos");

/// The value of a key that occurs once in the unit.
fn unit(key: &str) -> String {
    let unit = text(UNIT);
    let of_key = |line: &str| Some(line.strip_prefix(key)?.strip_prefix('=')?.to_owned());
    let mut values = unit.lines().filter_map(of_key);
    let value = values.next().unwrap_or_else(|| panic!("{UNIT} has no {key}"));
    assert_eq!(values.next(), None, "{key}");
    value
}

#[test]
fn systemd_takes_the_unit_and_calls_it_safe() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("promkairos.service");
    // `systemd-analyze` checks that the program exists.
    std::fs::write(&path, text(UNIT).replace("/usr/bin/promkairos", BINARY)).expect("written");
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(&path).output().expect("systemd-analyze runs")
    };
    let verified = analyze(&["verify"]);
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    // An unknown key is a line of output, not a failure.
    assert!(verified.status.success() && !said.contains("promkairos"), "{said}");
    // The threshold is in tenths, from 0 (nothing is exposed) to 100.
    let rated = analyze(&["security", "--offline=true", "--no-pager", "--threshold=15"]);
    assert!(rated.status.success(), "{}", String::from_utf8_lossy(&rated.stdout));
}

#[test]
fn a_reload_of_the_unit_fails_where_the_settings_are_refused() {
    let unit_text = text(UNIT);
    let commands: Vec<&str> =
        unit_text.lines().filter_map(|line| line.strip_prefix("ExecReload=")).collect();
    let [check, signal] = commands[..] else { panic!("{commands:?}") };
    // systemd runs the commands in this order, and the second one only if the first succeeded.
    assert_hangs_up(signal);
    let start = unit("ExecStart");
    let (program, settings) = start.split_once(" serve --config ").expect("it serves");
    assert_eq!(check, format!("{program} check-config {settings}"));
    let folder = tempfile::tempdir().expect("a folder");
    let run = |settings_text: &str| {
        let path = folder.path().join("promkairos.toml");
        std::fs::write(&path, settings_text).expect("written");
        let command = check.replace(settings, &path.display().to_string());
        let arguments: Vec<&str> = command.split(' ').skip(1).collect();
        Command::new(BINARY).args(arguments).output().expect("it runs").status.success()
    };
    assert!(run("retention = \"1y\"\n"));
    assert!(!run("retention = \"soon\"\n"));
}

/// Asserts that a command of the unit sends SIGHUP to the main process with the shell alone: a small Debian has no
/// `/bin/kill`. No signal is sent here, as SIGHUP may be ignored where the tests run.
fn assert_hangs_up(command: &str) {
    let script = command.strip_prefix("/bin/sh -c '").and_then(|rest| rest.strip_suffix('\''));
    let script = script.unwrap_or_else(|| panic!("{command}"));
    let sent = Command::new("/bin/sh")
        .args(["-c", &format!("kill -0 $$ && kill() {{ echo \"$@\"; }} && {script}")])
        .env_clear()
        .envs([("PATH", "/nonexistent"), ("MAINPID", "4711")])
        .output()
        .expect("it runs");
    assert_eq!(String::from_utf8_lossy(&sent.stdout), "-HUP 4711\n", "{command}: {sent:?}");
}

fn check_config(path: &Path) -> Output {
    Command::new(BINARY).arg("check-config").arg(path).output().expect("it runs")
}

#[test]
fn the_file_of_settings_is_valid_with_and_without_what_is_commented_out() {
    let checked = check_config(&root().join(SETTINGS));
    assert!(checked.status.success(), "{checked:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let password = folder.path().join("password");
    std::fs::write(&password, "secret\n").expect("written");
    let is_setting = |line: &str| {
        let name = line.split_once(" = ").map_or("", |(name, _)| name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let mut count = 0;
    let mut all = String::new();
    for line in text(SETTINGS).lines() {
        match line.strip_prefix("# ") {
            Some(setting) if is_setting(setting) => {
                count += 1;
                all.push_str(setting);
            }
            _ => all.push_str(line),
        }
        all.push('\n');
    }
    assert!(count >= 5, "{all}");
    let named = "/etc/promkairos/cassandra-password";
    assert!(all.contains(named), "{all}");
    let path = folder.path().join("promkairos.toml");
    std::fs::write(&path, all.replace(named, &password.display().to_string())).expect("written");
    let checked = check_config(&path);
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn the_package_holds_the_program_of_the_unit_and_existing_files() {
    let manifest: toml::Table = text("Cargo.toml").parse().expect("TOML");
    let package = &manifest["package"]["metadata"]["deb"];
    // A longer description continues in the text below the synopsis.
    let synopsis = manifest["package"]["description"].as_str().expect("a text");
    assert!(synopsis.len() < 80, "{} bytes: {synopsis}", synopsis.len());
    let list = |value: &toml::Value| -> Vec<String> {
        let items = value.as_array().expect("a list").iter();
        items.map(|item| item.as_str().expect("a text").to_owned()).collect()
    };
    let assets: Vec<Vec<String>> =
        package["assets"].as_array().expect("assets").iter().map(list).collect();
    let mut placed = BTreeSet::new();
    for asset in &assets {
        let [source, place, mode] = &asset[..] else { panic!("{asset:?}") };
        assert!(["644", "755"].contains(&mode.as_str()), "{asset:?}");
        let name = source.rsplit('/').next().expect("a name");
        let whole = if place.ends_with('/') { format!("{place}{name}") } else { place.clone() };
        assert!(placed.insert(format!("/{whole}")), "{asset:?}");
        // The build makes these files.
        if source.starts_with("target/") {
            continue;
        }
        match source.split_once('*') {
            None => assert!(root().join(source).is_file(), "{source}"),
            Some((folder, ending)) => {
                let files = std::fs::read_dir(root().join(folder)).expect(folder);
                let names = files.map(|file| file.expect("a file").file_name());
                let mut names = names.map(|name| name.to_string_lossy().into_owned());
                assert!(names.any(|name| name.ends_with(ending)), "{source}");
            }
        }
    }
    let start = unit("ExecStart");
    let words: Vec<&str> = start.split(' ').collect();
    let [program, "serve", "--config", settings] = words[..] else { panic!("{start}") };
    assert!(placed.contains(program) && placed.contains(settings), "{placed:?}");
    assert_eq!(list(&package["conf-files"]), [settings]);
    let data = format!("data_dir = \"/var/lib/{}\"", unit("StateDirectory"));
    assert!(text(SETTINGS).contains(&data), "{data}");
    let units = &package["systemd-units"];
    let folder = units["unit-scripts"].as_str().expect("a folder");
    let name = units["unit-name"].as_str().expect("a name");
    assert_eq!(format!("{folder}/{name}.service"), UNIT);
    let scripts = package["maintainer-scripts"].as_str().expect("a folder");
    for script in ["postinst", "postrm"] {
        let path = format!("{scripts}/{script}");
        // cargo-deb replaces this line with the commands that enable and start the unit.
        assert!(text(&path).contains("\n#DEBHELPER#\n"), "{path}");
        assert_shell("sh", &path);
    }
    assert!(text("packaging/debian/postinst").contains(&format!(" {}\n", unit("User"))));
}

/// Asserts that a shell can parse a script.
fn assert_shell(shell: &str, path: &str) {
    let read = Command::new(shell).arg("-n").arg(root().join(path)).output().expect("it runs");
    assert!(read.status.success(), "{path}: {}", String::from_utf8_lossy(&read.stderr));
}

#[test]
fn shells_can_read_the_scripts_that_no_test_runs() {
    for script in ["packaging/static.sh", "packaging/try_deb.sh", "bench/soak.sh"] {
        assert_shell("bash", script);
    }
}

#[test]
fn every_command_has_its_manual_page_in_the_package() {
    const SCRIPT: &str = "packaging/deb.sh";
    assert_shell("bash", SCRIPT);
    // The function of the script that makes the pages.
    let script = text(SCRIPT);
    let function =
        script.split_once("\npages() {\n").and_then(|(_, rest)| rest.split_once("\n}\n"));
    let (body, _) = function.expect("a function");
    let folder = tempfile::tempdir().expect("a folder");
    let made = Command::new("bash")
        .args(["-euc", &format!("binary=$0 generated=$1\npages() {{\n{body}\n}}\npages"), BINARY])
        .arg(folder.path())
        .output()
        .expect("bash");
    assert!(made.status.success(), "{made:?}");
    let files = std::fs::read_dir(folder.path()).expect("a folder");
    let names = files.map(|file| file.expect("a file").file_name());
    let made: BTreeSet<String> =
        names.map(|name| name.to_string_lossy().trim_end_matches(".1").to_owned()).collect();
    assert_eq!(made, page_names(&[]));
    assert!(made.contains("promkairos-wal-repair") && made.contains("promkairos"), "{made:?}");
    for name in &made {
        let path = folder.path().join(format!("{name}.1"));
        let page = std::fs::read_to_string(path).expect("a page");
        assert!(page.contains(&format!("\n.TH {name} 1 ")), "{name}: {page}");
        // The pages that it refers to exist.
        let referred = page.split(['\n', ' ']).filter_map(|word| word.strip_suffix("(1)"));
        for word in referred.map(|word| word.replace('\\', "")) {
            assert!(made.contains(&word), "{name} refers to {word}");
        }
    }
    let page = std::fs::read_to_string(folder.path().join("promkairos-serve.1")).expect("a page");
    assert!(page.contains("PROMKAIROS_WAL_LIMIT"), "{page}");
}

/// The names of the page of a command and of all below it.
fn page_names(command: &[&str]) -> BTreeSet<String> {
    let mut names = BTreeSet::from([[&["promkairos"][..], command].concat().join("-")]);
    for below in commands(&help(command)).iter().filter(|below| *below != "help") {
        names.extend(page_names(&[command, &[below.as_str()][..]].concat()));
    }
    names
}

#[test]
fn links_of_the_pages_in_the_package_lead_to_what_is_in_it() {
    let manifest: toml::Table = text("Cargo.toml").parse().expect("TOML");
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().expect("assets");
    let mut installed = BTreeMap::new();
    for asset in assets {
        let [source, place] = [0, 1].map(|at| asset[at].as_str().expect("a text"));
        let sources = match source.split_once('*') {
            // Files that the build makes have no links.
            _ if source.starts_with("target/") => Vec::new(),
            None => vec![source.to_owned()],
            Some((folder, ending)) => {
                let files = std::fs::read_dir(root().join(folder)).expect(folder);
                let names = files.map(|file| file.expect("a file").file_name());
                let names = names.map(|name| name.to_string_lossy().into_owned());
                let names = names.filter(|name| name.ends_with(ending));
                names.map(|name| format!("{folder}{name}")).collect()
            }
        };
        for source in sources {
            let name = source.rsplit('/').next().expect("a name");
            let path =
                if place.ends_with('/') { format!("{place}{name}") } else { place.to_owned() };
            installed.insert(PathBuf::from(path), source);
        }
    }
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (path, source) in installed.iter().filter(|(_, source)| source.ends_with(".md")) {
        for target in links(&text(source)) {
            count += 1;
            let mut place = path.parent().expect("a folder").to_owned();
            for part in target.split('/').filter(|part| !part.is_empty()) {
                match part {
                    ".." => drop(place.pop()),
                    part => place.push(part),
                }
            }
            if !installed.keys().any(|known| known.starts_with(&place)) {
                wrong.push(format!("{source}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 40, "{count} links");
}

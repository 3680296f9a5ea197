//! Output that is generated from the definitions of the command line: `promkairos settings` prints
//! the reference page of all settings and of the keys of tables, `completions SHELL` a script for a
//! shell, `man [COMMAND...]` a manual page.
//!
//! No setting is described here: names, defaults and sentences come from `--help` and, for keys of
//! tables, from their parsers.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::config::{Form, GROUPS, Group, Key, KeyTable, SETTINGS, Setting, key_tables};

use super::error::CliError;
use super::output;

/// The text before the tables of settings.
const HEAD: &str = "# Settings

After this page you can set everything that can be set, as a flag, as a variable or in a file.

The flag `--a-b` is also the environment variable `PROMKAIROS_A_B`, and the key `a_b` of the TOML
file that `--config FILE` (`PROMKAIROS_CONFIG`) names. Flags win over the environment, the environment
over the file. `promkairos check-config` says whether they are valid, and who said what.

Durations are written `15s`, `2h`, `1h30m`, `2y`; sizes `512MB`, `8GiB`. The value of a flag may
stand behind a `=` or a space, but for `[=true|false]`: such a flag stands alone, which means `true`, or has its value
behind a `=`. In the file a list may be an array.

Under reload, `yes` means that a change applies when the settings are read again, on SIGHUP or `POST /-/reload`, and
`restart` that it applies after a restart.

`promkairos settings` prints this page, from the definitions that `--help` has.
";

/// The text before the tables of keys.
const KEYS_HEAD: &str = "
## Keys of tables

Some settings are tables, and `--web-config-file` names a file with keys of its own. A key that is not
listed is refused. A setting that is a table is written as TOML or JSON where it is a flag or a variable.
Names in capitals are yours to choose.
";

/// The definitions of the three commands.
pub(super) fn commands() -> [Command; 3] {
    let shell = Arg::new("shell").value_name("SHELL").required(true);
    let page = Arg::new("page").value_name("COMMAND").num_args(0..).help("Without it: promkairos");
    [
        Command::new("settings").about("Print the reference page of all settings, in Markdown"),
        Command::new("completions")
            .about("Print the script that completes commands and flags in a shell")
            .arg(shell.value_parser(value_parser!(Shell)).help("The shell")),
        Command::new("man").about("Print the manual page of a command").arg(page),
    ]
}

/// Runs `settings`.
pub(super) fn run_settings() -> Result<(), CliError> {
    output::print(&(page(&GROUPS) + &keys_page(&key_tables())))
}

/// Runs `completions` for the whole command line.
pub(super) fn run_completions(matches: &ArgMatches, mut whole: Command) -> Result<(), CliError> {
    let shell = *matches.get_one::<Shell>("shell").expect("clap requires it");
    whole = completed(whole);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut whole, "promkairos", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Adds completions for values: words, files, or none.
fn completed(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        let setting = SETTINGS.iter().find(|setting| setting.key() == argument.get_id().as_str());
        let words = setting.map_or(&[][..], Setting::words);
        let takes_value = argument.get_action().takes_values();
        let value =
            argument.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
        let hint = match value {
            Some("FILE") => ValueHint::FilePath,
            Some("DIR") => ValueHint::DirPath,
            _ => ValueHint::Other,
        };
        // One that has words of its own keeps them.
        if !takes_value || !argument.get_possible_values().is_empty() {
            return argument;
        }
        match words {
            [] => argument.value_hint(hint),
            words => argument.value_parser(PossibleValuesParser::new(words.iter().copied())),
        }
    });
    command.mut_subcommands(completed)
}

/// Runs `man` for a command of the whole command line.
pub(super) fn run_man(matches: &ArgMatches, mut whole: Command) -> Result<(), CliError> {
    whole = without_help(whole);
    // Sets the full names of the commands and the global flags.
    whole.build();
    let mut command = &whole;
    for name in matches.get_many::<String>("page").into_iter().flatten() {
        command = command
            .find_subcommand(name)
            .ok_or_else(|| CliError::usage(format!("{name:?} is no command")))?;
    }
    let source = format!("promkairos {}", whole.get_version().unwrap_or_default());
    let mut page = Vec::new();
    Man::new(command.clone())
        .source(source)
        .render(&mut page)
        .map_err(CliError::system("the manual page"))?;
    output::print(&String::from_utf8_lossy(&page))
}

/// Removes the commands `help`, whose pages would not exist.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// The page of all settings, a table for each group.
fn page(groups: &[Group]) -> String {
    let mut text = HEAD.to_owned();
    for Group { title, settings } in groups {
        let rows: String = settings.iter().map(row).collect();
        text += &format!(
            "\n## {title}\n\n| flag | default | reload | meaning |\n|---|---|---|---|\n{rows}"
        );
    }
    text
}

fn row(setting: &Setting) -> String {
    let name = setting.name;
    let flag = match setting.form {
        // After a space the value would be a command.
        Form::Switch => format!(r"`--{name}[=true\|false]`"),
        form => format!("`--{name}` {}", escaped(form.label())),
    };
    let default = setting.default.map_or_else(String::new, |text| format!("`{text}`"));
    let reload = if setting.is_reloadable { "yes" } else { "restart" };
    format!("| {flag} | {default} | {reload} | {} |\n", escaped(&setting.meaning()))
}

/// The tables of keys, each under a heading.
fn keys_page(tables: &[KeyTable]) -> String {
    let mut text = KEYS_HEAD.to_owned();
    for KeyTable { setting, place, help, keys } in tables {
        let title = match *place {
            "" => format!("`--{setting}`"),
            place => format!("`{place}`"),
        };
        let row = |key: &Key| {
            let Key { name, help, unsaid } = key;
            format!("| `{name}` | {} | {} |\n", escaped(help), escaped(unsaid))
        };
        let rows: String = keys.iter().map(row).collect();
        let help = escaped(help);
        text += &format!(
            "\n### {title}\n\n{help}.\n\n| key | meaning | left out |\n|---|---|---|\n{rows}"
        );
    }
    text
}

/// Escapes text for a cell of a Markdown table.
fn escaped(text: &str) -> String {
    let one = |c: char| match c {
        '*' | '_' | '<' | '|' | '[' | '`' => format!("\\{c}"),
        c => c.to_string(),
    };
    text.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::config::{Config, ConfigError, arguments, is_live};

    #[test]
    fn a_table_a_place_with_a_row_a_key() {
        let key = |name, help: &'static str, unsaid| Key { name, help: help.into(), unsaid };
        let tables = [
            KeyTable {
                setting: "a-b",
                place: "[[a_b]]",
                help: "One of [many]",
                keys: vec![key("c_d", "x|y", "refused"), key("e", "As --f", "no_one")],
            },
            KeyTable { setting: "g", place: "", help: "The file", keys: vec![] },
        ];
        let page = keys_page(&tables);
        let (_, page) = page.split_once("yours to choose.\n").expect("the head");
        let columns = "| key | meaning | left out |\n|---|---|---|\n";
        assert_eq!(
            page,
            format!(
                "\n### `[[a_b]]`\n\nOne of \\[many].\n\n{columns}\
                 | `c_d` | x\\|y | refused |\n| `e` | As --f | no\\_one |\n\
                 \n### `--g`\n\nThe file.\n\n{columns}"
            )
        );
    }

    /// The row is all that makes a setting: no other table names it.
    #[test]
    fn a_row_is_flag_variable_key_help_completion_and_line_of_the_page() {
        let command = Command::new("t").args(arguments());
        let completed = completed(command.clone());
        let page = include_str!("../../docs/settings.md");
        assert!(page.starts_with(&super::page(&GROUPS)), "docs/settings.md is not of this table");
        let file = tempfile::NamedTempFile::new().expect("a file");
        for setting in SETTINGS {
            let (name, key, variable) = (setting.name, setting.key(), setting.variable());
            assert_eq!(
                (key.replace('_', "-"), variable.to_lowercase()),
                (name.into(), format!("promkairos_{key}"))
            );
            let flag =
                completed.get_arguments().find(|flag| flag.get_id() == key.as_str()).expect(name);
            assert_eq!(
                (flag.get_long(), flag.get_env()),
                (Some(name), Some(OsStr::new(&variable)))
            );
            let words: Vec<String> =
                flag.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect();
            assert_eq!(words, setting.words(), "{name}");
            let help = flag.get_help().expect(name).to_string();
            assert!(help.starts_with(&setting.meaning()), "{help}");
            let line = row(setting);
            assert!(line.contains(if is_live(name) { "| yes |" } else { "| restart |" }), "{line}");
            assert!(page.contains(&line), "{line}");
            // Whatever the value is, the key is known.
            std::fs::write(file.path(), format!("{key} = \"\"\n")).expect("written");
            let matches = command.clone().get_matches_from(["t"]);
            let read = Config::check(&matches, Some(file.path()));
            assert!(!matches!(read, Err(ConfigError::UnknownKey { .. })), "{name}");
        }
    }

    #[test]
    fn markdown_shows_a_row_as_it_is() {
        let [traces, types, clusters] =
            ["trace-sampling", "type-and-unit-labels", "cassandra-read-clusters"]
                .map(|name| row(SETTINGS.iter().find(|setting| setting.name == name).expect(name)));
        assert!(
            traces.starts_with("| `--trace-sampling` SHARE | `0.1` | restart | Share of"),
            "{traces}"
        );
        let start = r"| `--type-and-unit-labels[=true\|false]` | `false` | restart | Make labels \_\_type\_\_ and ";
        assert!(types.starts_with(start), "{types}");
        let start = r"| `--cassandra-read-clusters` LIST\|TABLE |  | restart | Clusters";
        assert!(clusters.starts_with(start) && clusters.contains(r": \[{name = "), "{clusters}");
    }
}

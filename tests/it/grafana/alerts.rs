//! The alert rules of `grafana/alerts.yml`: the programs that evaluate rules accept them, each fault in
//! `tests/data/grafana/alerts.test.yml` fires the expected alerts, and every rule says what to do and links to its
//! page. The tests of the dashboards check that their metrics exist.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value as Json;

use crate::docs::anchors;
use crate::support;
use crate::tidy::root;

const RULES: &str = "grafana/alerts.yml";
const TESTS: &str = "tests/data/grafana/alerts.test.yml";

fn rules() -> Vec<Json> {
    let text = std::fs::read_to_string(root().join(RULES)).expect(RULES);
    let rules: Json = serde_norway::from_str(&text).expect(RULES);
    let groups = rules["groups"].as_array().expect("groups").iter();
    groups.flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
}

/// Name and expression of each rule.
pub(super) fn expressions() -> Vec<(String, String)> {
    let text = |value: &Json| value.as_str().expect("a text").to_owned();
    rules().iter().map(|rule| (text(&rule["alert"]), text(&rule["expr"]))).collect()
}

#[test]
fn every_alert_says_what_to_do_and_where_that_is_written() {
    let mut names = BTreeSet::new();
    for rule in rules() {
        let name = rule["alert"].as_str().expect("a name").to_owned();
        assert!(name.starts_with("Promkairos"), "{name}");
        let severity = rule["labels"]["severity"].as_str().expect("a severity");
        assert!(["warning", "critical"].contains(&severity), "{name}: {severity}");
        for annotation in ["summary", "description"] {
            let text = rule["annotations"][annotation].as_str().unwrap_or_default();
            assert!(text.len() > 20, "{name}: {annotation}: {text:?}");
        }
        let runbook = rule["annotations"]["runbook"].as_str().expect("a runbook");
        let (page, place) = runbook.split_once('#').expect("a place of a page");
        let page = std::fs::read_to_string(root().join(page)).expect(runbook);
        assert!(anchors(&page).contains(place), "{name}: no {runbook}");
        assert!(names.insert(name));
    }
    assert!(names.len() > 15, "{names:?}");
}

#[test]
fn promtool_and_vmalert_take_the_rules() {
    let checked = Command::new(support::promtool_binary())
        .args(["check", "rules", "--lint-fatal"])
        .arg(root().join(RULES))
        .output()
        .expect("it runs");
    assert!(checked.status.success(), "{checked:?}");
    let dry_run = Command::new(support::vmalert_binary())
        .args(["-dryRun".to_owned(), format!("-rule={}", root().join(RULES).display())])
        .output()
        .expect("it runs");
    assert!(dry_run.status.success(), "{}", String::from_utf8_lossy(&dry_run.stderr));
}

#[test]
fn each_fault_makes_fire_what_it_should() {
    let tests = std::fs::read_to_string(root().join(TESTS)).expect(TESTS);
    for (name, _) in expressions() {
        assert!(tests.contains(&name), "no test has {name}");
    }
    let tested = Command::new(support::promtool_binary())
        .args(["test", "rules"])
        .arg(root().join(TESTS))
        .output()
        .expect("it runs");
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
    assert!(String::from_utf8_lossy(&tested.stdout).contains("SUCCESS"), "{tested:?}");
}

//! Documents generated from the tables of the configuration's keys: the example, the reference, and
//! a JSON schema for editors.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::cli::KeyDocument;
use crate::config::{
    AbsentKey, ChangeEffect, KeyInfo, OnReload, SectionInfo, Takes, file_sections, path_of,
};

pub(crate) fn text(document: KeyDocument) -> String {
    let file = file_sections();
    match document {
        KeyDocument::Example => {
            let mut example = Example::default();
            example.comment(file.about);
            example.tables(&file, "");
            example.text.trim_end().to_owned() + "\n"
        }
        KeyDocument::Reference => {
            let mut out = REFERENCE.to_owned();
            reference(&mut out, &file, "");
            out.trim_end().to_owned() + "\n"
        }
        KeyDocument::Schema => {
            let mut schema = table_schema(&file);
            schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
            schema["title"] = "Configuration of adit".into();
            format!("{schema:#}\n")
        }
    }
}

/// A table below a section.
struct SubTable<'a> {
    key: &'a KeyInfo,
    info: &'a SectionInfo,
    is_array: bool,
}

/// Returns all keys of a section, with the keys of groups inside it.
fn all_keys(info: &SectionInfo) -> Vec<&KeyInfo> {
    let keys = info.keys.iter().flat_map(|key| match &key.takes {
        Takes::Keys(further) => all_keys(further),
        _ => vec![key],
    });
    keys.collect()
}

/// Returns the keys of a section that have values, and the tables below the section.
fn parts(info: &SectionInfo) -> (Vec<&KeyInfo>, Vec<SubTable<'_>>) {
    let (mut values, mut tables) = (Vec::new(), Vec::new());
    for key in all_keys(info) {
        let is_inline = key.example.is_some_and(|example| !example.is_empty());
        match &key.takes {
            Takes::Table(info) => tables.push(SubTable { key, info, is_array: false }),
            Takes::Tables(info) if !is_inline => {
                tables.push(SubTable { key, info, is_array: true });
            }
            _ => values.push(key),
        }
    }
    (values, tables)
}

/// The example configuration, while it is written.
#[derive(Debug, Default)]
struct Example {
    text: String,
    /// Comments of sections that the text already contains.
    said: BTreeSet<&'static [&'static str]>,
}

impl Example {
    fn line(&mut self, is_comment: bool, line: &str) {
        let mark = if is_comment { "# " } else { "" };
        self.text.push_str(format!("{mark}{line}").trim_end());
        self.text.push('\n');
    }

    fn comment(&mut self, about: &'static [&'static str]) {
        for line in about {
            self.line(true, line.trim());
        }
    }

    /// Writes the tables below the section at `path`.
    fn tables(&mut self, info: &SectionInfo, path: &str) {
        for SubTable { key, info, is_array } in parts(info).1 {
            let path = path_of(path, key.name);
            let is_new = self.said.insert(info.about);
            let header = if is_array { format!("[[{path}]]") } else { format!("[{path}]") };
            let (values, _) = parts(info);
            let count = values.iter().filter_map(|key| key.example).map(<[_]>::len).max();
            for table in 0..count.filter(|_| is_array).unwrap_or(1).max(1) {
                self.text.push('\n');
                if table == 0 && is_new {
                    self.comment(info.about);
                }
                self.line(key.example.is_none(), &header);
                for value in &values {
                    self.key(value, table, is_new, key.example.is_none());
                }
            }
            self.tables(info, &path);
        }
    }

    /// Writes a key. `table`: index of the table in its array.
    fn key(&mut self, key: &KeyInfo, table: usize, is_new: bool, is_comment: bool) {
        let default = match &key.absent {
            AbsentKey::Is(value) => value,
            AbsentKey::Refused | AbsentKey::Follows(_) => "",
        };
        let (value, is_default) = match key.example {
            Some(example) if !example.is_empty() => (example.get(table).copied(), false),
            example => (Some(default).filter(|_| table == 0), example.is_none()),
        };
        let Some(value) = value.filter(|value| !value.is_empty()) else { return };
        let is_first = key.example.is_none_or(|example| {
            example.iter().position(|value| !value.is_empty()).is_none_or(|first| first == table)
        });
        if is_new && is_first {
            self.comment(key.about);
        }
        let (value, is_off) = match value.strip_prefix("# ") {
            Some(value) => (value, true),
            None => (value, is_default),
        };
        self.line(is_comment || is_off, &format!("{} = {value}", key.name));
    }
}

const REFERENCE: &str = "\
# Configuration

Generated from the tables in `crates/adit/src/config`; do not edit. `cargo run -p adit -- check --print reference` prints it.

`adit check FILE` checks a file and names every mistake with its line. `adit check --print example` prints a commented file
([adit.example.toml](../adit.example.toml)), and `adit check --print schema` a JSON schema for editors
([adit.schema.json](adit.schema.json)): with `#:schema /path/of/adit.schema.json` in the first line, editors with a TOML language
server such as Taplo complete and check keys.

The column *reload* says whether [`adit reload`](operate.md#reload) changes a key of a running adit: *yes*; *rules*: yes, and
sessions get their rules again; *no*: it needs a restart, for the reason below the table.
";

/// Writes the section at `path` and the sections below it, as tables.
fn reference(out: &mut String, info: &SectionInfo, path: &str) {
    let (values, tables) = parts(info);
    if !values.is_empty() {
        out.push_str("\n| key | meaning | values | default | reload |\n|---|---|---|---|---|\n");
    }
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for key in values {
        let reload = match key.on_reload {
            OnReload::Changes(ChangeEffect::Rules) => "rules",
            OnReload::Changes(_) => "yes",
            OnReload::Fixed(_) | OnReload::Section(_) => "no",
            OnReload::Depends(what) => what,
        };
        if let OnReload::Fixed(why) = key.on_reload {
            let name = format!("`{}`", key.name);
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(name),
                None => reasons.push((why, vec![name])),
            }
        }
        let default = match &key.absent {
            AbsentKey::Refused => "required".to_owned(),
            AbsentKey::Is(value) => format!("`{value}`"),
            AbsentKey::Follows(words) => (*words).to_owned(),
        };
        let (about, takes) = (key.about.concat(), words(&key.takes));
        let _ = writeln!(out, "| `{}` |{about} | {takes} | {default} | {reload} |", key.name);
    }
    for (number, (why, names)) in reasons.into_iter().enumerate() {
        let before = if number == 0 { "\n" } else { "" };
        let _ = writeln!(out, "{before}- Restart for {}: {why}.", names.join(", "));
    }
    for SubTable { key, info, is_array } in tables {
        let path = path_of(path, key.name);
        let title = if is_array { format!("[[{path}]]") } else { format!("[{path}]") };
        let _ = writeln!(out, "\n## `{title}`\n");
        for paragraph in info.about.split(|line| line.is_empty()) {
            let _ = writeln!(out, "{}\n", paragraph.concat().trim());
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        match key.on_reload {
            OnReload::Depends(what) if !what.is_empty() => {
                let _ = writeln!(out, "\nA reload changes: {what}.");
            }
            OnReload::Section(why) => {
                let _ = writeln!(out, "\nThe section itself needs a restart to come or go: {why}.");
            }
            _ => {}
        }
        reference(out, info, &path);
    }
}

/// Describes the values that a key takes.
fn words(takes: &Takes) -> String {
    match takes {
        Takes::Integer(low, high) => format!("{low} to {high}"),
        Takes::Words(names) => {
            let names: Vec<_> = names.iter().map(|name| format!("`\"{name}\"`")).collect();
            names.join(", ")
        }
        Takes::Flag => "`true`, `false`".to_owned(),
        Takes::Text(expects) => (*expects).to_owned(),
        Takes::List(of) => format!("a list: {}", words(of)),
        Takes::AnyOf(kinds) => kinds.iter().map(words).collect::<Vec<_>>().join("; or "),
        Takes::Count(most) => format!("`{{ count = 1 }}` to {most}"),
        Takes::Table(info) | Takes::Keys(info) => keys(info),
        Takes::Tables(info) => format!("a list of tables with {}", keys(info)),
    }
}

fn keys(info: &SectionInfo) -> String {
    info.keys.iter().map(|key| format!("`{}`", key.name)).collect::<Vec<_>>().join(", ")
}

fn table_schema(info: &SectionInfo) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for key in all_keys(info) {
        let mut schema = schema(&key.takes);
        let about = key.about.concat();
        if !about.is_empty() {
            schema["description"] = about.trim().into();
        }
        match &key.absent {
            AbsentKey::Refused => required.push(key.name),
            AbsentKey::Is(value) => {
                let value = serde_json::from_str(value);
                schema["default"] = value.unwrap_or(Value::Null);
            }
            AbsentKey::Follows(_) => {}
        }
        properties.insert(key.name.to_owned(), schema);
    }
    let about: Vec<_> = info.about.iter().map(|line| line.trim()).collect();
    json!({
        "type": "object", "description": about.join(" ").trim(), "properties": properties,
        "required": required, "additionalProperties": false,
    })
}

fn schema(takes: &Takes) -> Value {
    match takes {
        Takes::Integer(low, high) => {
            let number = |text: &str| text.parse::<i64>().unwrap_or_default();
            json!({ "type": "integer", "minimum": number(low), "maximum": number(high) })
        }
        Takes::Words(names) => json!({ "enum": names }),
        Takes::Flag => json!({ "type": "boolean" }),
        Takes::Text(_) => json!({ "type": "string" }),
        Takes::List(of) => json!({ "type": "array", "items": schema(of) }),
        Takes::AnyOf(kinds) => json!({ "anyOf": kinds.iter().map(schema).collect::<Vec<_>>() }),
        Takes::Count(most) => {
            let count = json!({ "type": "integer", "minimum": 1, "maximum": most });
            json!({ "type": "object", "properties": { "count": count }, "required": ["count"],
                    "additionalProperties": false })
        }
        Takes::Table(info) | Takes::Keys(info) => table_schema(info),
        Takes::Tables(info) => json!({ "type": "array", "items": table_schema(info) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn committed_documents_are_those_of_the_tables() {
        for (document, name, committed) in [
            (
                KeyDocument::Example,
                "adit.example.toml",
                include_str!("../../../../adit.example.toml"),
            ),
            (
                KeyDocument::Reference,
                "docs/configuration.md",
                include_str!("../../../../docs/configuration.md"),
            ),
            (
                KeyDocument::Schema,
                "docs/adit.schema.json",
                include_str!("../../../../docs/adit.schema.json"),
            ),
        ] {
            let kind = format!("{document:?}").to_lowercase();
            let command = format!("cargo run -p adit -- check --print {kind} > {name}");
            assert!(text(document) == committed, "{name} is out of date; run: {command}");
        }
    }

    /// Collects the keys of a section and of the sections below it, with their paths.
    fn all<'a>(info: &'a SectionInfo, path: &str, found: &mut Vec<(String, &'a KeyInfo)>) {
        let (values, tables) = parts(info);
        found.extend(values.into_iter().map(|key| (path.to_owned(), key)));
        for SubTable { key, info, .. } in tables {
            all(info, &path_of(path, key.name), found);
        }
    }

    #[test]
    fn example_is_accepted_and_has_a_line_and_a_comment_for_each_key() {
        let text = super::text(KeyDocument::Example);
        assert!(Config::parse(&text).is_ok());
        let file = file_sections();
        let mut keys = Vec::new();
        all(&file, "", &mut keys);
        assert!(keys.len() > 100, "{}", keys.len());
        for (path, key) in keys {
            let lines = text.lines().map(|line| line.trim_start_matches("# "));
            let headers = [format!("[{path}]"), format!("[[{path}]]")];
            let is_header = |line: &str| headers.iter().any(|header| header == line);
            let mut here = lines.skip_while(|line| !is_header(line));
            let here = here.by_ref().take_while(|line| !line.starts_with('[') || is_header(line));
            let name = format!("{} = ", key.name);
            assert!({ here }.any(|line| line.starts_with(&name)), "{path}: {name}");
            assert!(!key.about.concat().trim().is_empty(), "{path}.{} has no comment", key.name);
        }
    }

    #[test]
    fn schema_has_the_types_ranges_and_defaults_of_keys() {
        let schema: Value = serde_json::from_str(&text(KeyDocument::Schema)).unwrap();
        let n4 = &schema["properties"]["n4"];
        assert_eq!(n4["required"], json!(["listen"]));
        let retries = &n4["properties"]["n1_retries"];
        assert_eq!((&retries["maximum"], &retries["default"]), (&json!(20), &json!(3)));
        let role = &schema["properties"]["interface"]["items"]["properties"]["role"];
        assert_eq!(role["enum"], json!(["n3", "n9", "n4u", "n6"]));
        let workers = &schema["properties"]["datapath"]["properties"]["workers"]["anyOf"];
        assert_eq!(workers.as_array().map(Vec::len), Some(3));
    }
}

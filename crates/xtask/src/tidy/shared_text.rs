//! Checks that the oracle is written from the standard: no long run of its tokens occurs in the
//! product.

use std::collections::HashMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::source::{SourceFile, is_for_tests};

/// Minimum length of a run of equal tokens that counts as shared text. Idioms are shorter. Unit:
/// tokens.
const RUN_MIN: usize = 32;

/// Folder of the oracle.
const ORACLE: &str = "crates/tests/src/oracle/";

/// The rooms that the oracle tests.
const PRODUCT: &[&str] = &[
    "adit-wire",
    "adit-pfcp",
    "adit-rules",
    "adit-session",
    "adit-tables",
    "adit-n4",
    "adit-datapath",
];

/// The text of a token, and its line.
type Token = (String, usize);

/// Adds a finding for each run of tokens that the oracle shares with the product.
///
/// # Errors
/// A file cannot be divided into tokens.
pub(super) fn check(files: &[SourceFile], findings: &mut Vec<String>) -> anyhow::Result<()> {
    let is_product =
        |file: &&SourceFile| PRODUCT.contains(&file.package.as_str()) && !file.is_program();
    let mut product = Vec::new();
    for file in files.iter().filter(is_product) {
        product.push((file.path.as_str(), tokens(file)?));
    }
    let mut runs: HashMap<u64, Vec<(usize, usize)>> = HashMap::new();
    for (number, (_, tokens)) in product.iter().enumerate() {
        for (at, run) in tokens.windows(RUN_MIN).enumerate() {
            runs.entry(hash(run)).or_default().push((number, at));
        }
    }
    for file in files.iter().filter(|file| file.path.starts_with(ORACLE)) {
        let tokens = tokens(file)?;
        let mut at = 0;
        while let Some(run) = tokens.get(at..at + RUN_MIN) {
            let candidates = runs.get(&hash(run)).into_iter().flatten();
            let twin = candidates
                .map(|(number, start)| (product[*number].0, &product[*number].1[*start..]))
                .max_by_key(|(_, theirs)| common_prefix_len(&tokens[at..], theirs));
            let len = twin.map_or(0, |(_, theirs)| common_prefix_len(&tokens[at..], theirs));
            match twin.filter(|_| len >= RUN_MIN) {
                Some((path, theirs)) => {
                    findings.push(format!(
                        "{}:{}: {len} tokens of {path}:{}; the oracle says it in its own way",
                        file.path, run[0].1, theirs[0].1
                    ));
                    at += len;
                }
                None => at += 1,
            }
        }
    }
    Ok(())
}

fn hash(run: &[Token]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    run.iter().for_each(|(text, _)| text.hash(&mut hasher));
    hasher.finish()
}

/// Returns the length of the common prefix. Unit: tokens.
fn common_prefix_len(ours: &[Token], theirs: &[Token]) -> usize {
    ours.iter().zip(theirs).take_while(|(one, other)| one.0 == other.0).count()
}

/// Returns the tokens of a file, except tests, imports, attributes and documentation.
fn tokens(file: &SourceFile) -> anyhow::Result<Vec<Token>> {
    let mut tests = Vec::new();
    for item in &file.syntax.items {
        if let syn::Item::Mod(item) = item
            && is_for_tests(&item.attrs)
            && let Some((brace, _)) = &item.content
        {
            tests.push(brace.span.open().start().line..=brace.span.close().end().line);
        }
    }
    let stream: TokenStream =
        file.text.parse().map_err(|error| anyhow::anyhow!("{}: {error}", file.path))?;
    let mut found = Vec::new();
    flatten(stream, &mut found);
    found.retain(|(_, line)| !tests.iter().any(|lines| lines.contains(line)));
    Ok(found)
}

fn flatten(stream: TokenStream, found: &mut Vec<Token>) {
    let mut rest = stream.into_iter().peekable();
    while let Some(token) = rest.next() {
        let line = token.span().start().line;
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                // Skips an attribute: `#`, an optional `!`, and its group.
                rest.next_if(|next| next.to_string() == "!");
                rest.next_if(|next| matches!(next, TokenTree::Group(_)));
            }
            TokenTree::Ident(name) if name == "use" => {
                while rest.next_if(|next| next.to_string() != ";").is_some() {}
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                found.push((open.to_owned(), line));
                flatten(group.stream(), found);
                found.push((close.to_owned(), group.span_close().start().line));
            }
            token => found.push((token.to_string(), line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "fn f(far: &mut Far, update: &Update) { far.action = \
        update.action.unwrap_or(far.action); far.bar = update.bar.or(far.bar); }";

    fn findings(oracle: &str, product: &str) -> Vec<String> {
        let files = [
            SourceFile::new("adit-session", "crates/session/src/x.rs", product).unwrap(),
            SourceFile::new("adit-tests", "crates/tests/src/oracle/y.rs", oracle).unwrap(),
        ];
        let mut findings = Vec::new();
        check(&files, &mut findings).unwrap();
        findings
    }

    #[test]
    fn text_in_common_is_found_whatever_its_comments_and_lines() {
        let oracle = format!("/// A comment.\n{}", CODE.replace("; ", ";\n// why\n"));
        let found = findings(&oracle, &format!("\n{CODE}"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/tests/src/oracle/y.rs:2: "), "{found:?}");
        assert!(found[0].contains("crates/session/src/x.rs:2;"), "{found:?}");
    }

    #[test]
    fn text_of_its_own_imports_and_tests_are_free() {
        let own = CODE.replace("far.bar = update.bar.or(far.bar)", "restate(far, update)");
        assert_eq!(findings(&own, CODE), Vec::<String>::new());
        let tests = format!("#[cfg(test)] mod tests {{\n{CODE}\n}}");
        assert_eq!(findings(CODE, &tests), Vec::<String>::new());
        let imports = "use a::{b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v};";
        assert_eq!(findings(imports, imports), Vec::<String>::new());
    }
}

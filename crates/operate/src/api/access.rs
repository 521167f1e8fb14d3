//! Who may do what: bearer tokens with roles (RFC 6750), from a file.

use std::fmt;
use std::path::Path;

use adit_types::limits::{API_TOKEN_BYTES_MAX, API_TOKEN_BYTES_MIN, API_TOKENS_MAX};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use crate::api::config::ApiStartError;
use crate::api::files::{FileSecrecy, read_text_file};

/// The rights of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiRole {
    /// May read everything.
    Read,
    /// May read everything, and change things.
    Act,
}

impl ApiRole {
    /// The name of the role in the file of tokens.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Act => "act",
        }
    }
}

/// Who sent a request; an extension of the request that a handler gets.
#[derive(Debug, Clone)]
pub struct ApiPrincipal {
    /// The name of the token, or "anybody" without tokens, with the address.
    pub name: String,
    /// The client's rights.
    pub role: ApiRole,
}

/// A token from a line of the file; only its hash is kept.
struct KnownToken {
    name: String,
    role: ApiRole,
    hash: [u8; SHA256_OUTPUT_LEN],
}

/// All tokens; `None` if the interface has no file of tokens.
pub(crate) struct TokenList(Option<Vec<KnownToken>>);

impl fmt::Debug for TokenList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenList").field(&self.0.as_ref().map(Vec::len)).finish()
    }
}

impl TokenList {
    /// Reads the tokens in the file at `path`. A line has a role, a name and a token; `#` begins a
    /// comment. Without a path, clients need no token.
    ///
    /// # Errors
    /// The file cannot be read, others may read it, or a line has another form.
    pub(crate) fn load(path: Option<&Path>) -> Result<Self, ApiStartError> {
        let Some(path) = path else { return Ok(Self(None)) };
        let refused = |what: String| ApiStartError::Tokens { path: path.to_owned(), what };
        let text = read_text_file(path, FileSecrecy::Secret);
        let text = text.map_err(|error| refused(error.to_string()))?;
        parse(&text).map(|tokens| Self(Some(tokens))).map_err(refused)
    }

    /// True if clients need a token.
    pub(crate) const fn is_needed(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the holder of `token`: index in the file, name and role. Takes the same time for
    /// every token of one length.
    pub(crate) fn holder(&self, token: &str) -> Option<(usize, &str, ApiRole)> {
        let hash = hash_of(token);
        let tokens = self.0.as_deref().unwrap_or_default();
        let mut found = None;
        for (number, known) in tokens.iter().enumerate() {
            if known.hash == hash {
                found = Some((number, known.name.as_str(), known.role));
            }
        }
        found
    }
}

/// Returns the hash of a token. The duration of comparing hashes reveals nothing about the tokens.
fn hash_of(token: &str) -> [u8; SHA256_OUTPUT_LEN] {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

fn parse(text: &str) -> Result<Vec<KnownToken>, String> {
    let mut tokens: Vec<KnownToken> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let [role, name, token] = words[..] else {
            if words.is_empty() {
                continue;
            }
            return Err(format!("line {number}: takes a role, a name and a token"));
        };
        let role = match role {
            "read" => ApiRole::Read,
            "act" => ApiRole::Act,
            _ => return Err(format!("line {number}: the role is \"read\" or \"act\"")),
        };
        let len = token.len();
        if !(API_TOKEN_BYTES_MIN..=API_TOKEN_BYTES_MAX).contains(&len) || !is_token(token) {
            return Err(format!(
                "line {number}: a token has {API_TOKEN_BYTES_MIN} to {API_TOKEN_BYTES_MAX} letters, digits and \
                 \"-._~+/=\"; `openssl rand -hex 16` prints one"
            ));
        }
        let hash = hash_of(token);
        if tokens.iter().any(|known| known.hash == hash || known.name == name) {
            return Err(format!("line {number}: names and tokens differ from those before"));
        }
        tokens.push(KnownToken { name: name.to_owned(), role, hash });
    }
    match tokens.len() {
        0 => Err("has no token; write a line such as \"read dashboard TOKEN\"".to_owned()),
        count if count > API_TOKENS_MAX => Err(format!("has more than {API_TOKENS_MAX} tokens")),
        _ => Ok(tokens),
    }
}

/// True if the text has the syntax of a bearer token. Spec: RFC 6750 §2.1 (b64token).
fn is_token(text: &str) -> bool {
    text.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"-._~+/=".contains(&octet))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const READS: &str = "0123456789abcdef0123456789abcdef";
    const ACTS: &str = "fedcba9876543210fedcba9876543210";

    #[test]
    fn holders_are_known_by_their_tokens() {
        let text = format!("# people\nread grafana {READS}\n\nact alice {ACTS} # until May\n");
        let tokens = TokenList(Some(parse(&text).unwrap()));
        assert_eq!(tokens.holder(READS), Some((0, "grafana", ApiRole::Read)));
        assert_eq!(tokens.holder(ACTS), Some((1, "alice", ApiRole::Act)));
        assert_eq!(tokens.holder("fedc"), None);
        assert!(tokens.is_needed() && !TokenList(None).is_needed());
        assert!(!format!("{tokens:?}").contains("fedc"));
    }

    #[test]
    fn lines_that_are_none_are_refused_by_number() {
        for (text, word) in [
            ("", "no token"),
            ("read a", "line 1"),
            (&format!("write a {READS}"), "role"),
            ("read a 0123", "openssl rand"),
            (&format!("read a {READS}\nact b {READS}"), "line 2"),
            (&format!("read a {READS}\nact a {ACTS}"), "line 2"),
        ] {
            let refused = parse(text).err().unwrap();
            assert!(refused.contains(word), "{text}: {refused}");
        }
    }

    #[test]
    fn file_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        fs::write(&path, format!("read a {READS}\n")).unwrap();
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        let refused = TokenList::load(Some(&path)).unwrap_err().to_string();
        assert!(refused.contains("chmod") && refused.contains("api.tokens_file"), "{refused}");
        mode(0o640);
        assert!(TokenList::load(Some(&path)).unwrap().is_needed());
    }
}

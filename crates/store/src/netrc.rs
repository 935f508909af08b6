//! The user's passwords for hosts: the file `.netrc`, as curl and the tools of NASA read it.

use std::{env, io::Read, path::PathBuf};

/// Maximum length of the file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the path of the file: that in `NETRC`, or else `.netrc` in the home folder (`_netrc` on Windows).
pub(crate) fn path() -> Option<PathBuf> {
    if let Some(path) = env::var_os("NETRC").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    Some(env::home_dir()?.join(if cfg!(windows) { "_netrc" } else { ".netrc" }))
}

/// Returns the user and password for a host. The entry `default` is ignored, so that a password reaches no host that the
/// file does not name.
pub(crate) fn login(host: &str) -> Option<(String, String)> {
    let mut text = String::new();
    std::fs::File::open(path()?).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    find(&text, host)
}

fn find(text: &str, host: &str) -> Option<(String, String)> {
    let mut tokens = tokens(text).into_iter();
    let mut is_entry = false;
    let (mut user, mut password) = (None, None);
    while let Some(token) = tokens.next() {
        match token.as_str() {
            "machine" | "default" if user.is_some() && password.is_some() => break,
            "machine" => {
                is_entry = tokens.next().is_some_and(|name| name.eq_ignore_ascii_case(host));
                (user, password) = (None, None);
            }
            "default" => is_entry = false,
            "login" if is_entry => user = tokens.next(),
            "password" if is_entry => password = tokens.next(),
            "login" | "password" | "account" => drop(tokens.next()),
            _ => {}
        }
    }
    Some((user?, password?))
}

/// Splits the file into words; quotes may surround a word, and a backslash escapes a character in quotes. Comments and
/// macros are omitted.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut is_macro = false;
    for line in text.lines() {
        is_macro = is_macro && !line.trim().is_empty();
        let mut rest = line.trim_start();
        if is_macro || rest.starts_with('#') {
            continue;
        }
        while !rest.is_empty() {
            let mut token = String::new();
            let end = if let Some(quoted) = rest.strip_prefix('"') {
                let mut characters = quoted.char_indices();
                loop {
                    match characters.next() {
                        Some((at, '"')) => break at + 2,
                        Some((_, '\\')) => token.extend(characters.next().map(|(_, c)| c)),
                        Some((_, c)) => token.push(c),
                        None => break rest.len(),
                    }
                }
            } else {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                token.push_str(rest.get(..end).unwrap_or_default());
                end
            };
            rest = rest.get(end..).unwrap_or_default().trim_start();
            if token == "macdef" {
                is_macro = true;
                break;
            }
            tokens.push(token);
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn entries_are_found_by_host() {
        let text = "# comment\nmachine other login a password b\nmachine urs.earthdata.nasa.gov\n  login me\n\tpassword \"p w\\\"#\"\n\
                    macdef init\nmachine evil login x password y\n\nmachine last password z login w account n\ndefault login d password e";
        let login = |host| find(text, host).map(|(user, password)| format!("{user}:{password}"));
        assert_eq!(login("urs.earthdata.nasa.gov").as_deref(), Some("me:p w\"#"));
        assert_eq!(login("URS.earthdata.nasa.gov").as_deref(), Some("me:p w\"#"));
        assert_eq!(login("last").as_deref(), Some("w:z"));
        assert_eq!(login("evil"), None);
        assert_eq!(login("unknown"), None);
        assert_eq!(find("machine h login a", "h"), None);
        assert_eq!(find("machine h login a password \"b", "h"), Some(("a".to_owned(), "b".to_owned())));
    }
}

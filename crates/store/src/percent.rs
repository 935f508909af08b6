//! Escapes of urls.

/// Text with `%41` as the byte that it stands for; what is no such escape stays.
pub(crate) fn decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escape = (*first == b'%').then(|| hexadecimal(after)).flatten();
        bytes.push(escape.unwrap_or(*first));
        rest = if escape.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    bytes
}

fn hexadecimal(text: &[u8]) -> Option<u8> {
    let digits = text.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

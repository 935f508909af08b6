//! Hexadecimal bytes in tests.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

/// Decodes pairs of hexadecimal digits. White space is ignored.
pub(crate) fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Returns the result of a future that reads from memory and is therefore always ready.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("memory never waits"),
    }
}

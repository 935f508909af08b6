use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

/// Returns the result of a future that reads from memory and is therefore always ready.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("memory never waits"),
    }
}

//! Integration tests, in one binary.

mod allowed;
mod clouds;
mod common;
mod conformance;
mod faults;
mod folder;
mod foreign;
mod http;
mod listed;
mod local;
mod lock;
mod s3;
mod waves;

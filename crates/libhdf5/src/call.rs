//! Calls of the C library: identifiers that are closed when dropped, and errors as one line.

use std::{ffi::CStr, os::raw::c_char};

use hdf5_metno_sys::{h5e, h5i};
use virtualize_hdf5::Error;

/// Result of this crate.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Value of "unlimited" and "undefined address" in the C library.
pub(crate) const UNDEFINED: u64 = u64::MAX;

/// Limit on the length of a name or path, in bytes.
const MAX_NAME: usize = 1 << 20;

/// An open identifier, which is closed when dropped.
#[derive(Debug)]
pub(crate) struct Handle(h5i::hid_t);

impl Handle {
    /// Returns the identifier, for a call that does not keep it.
    pub(crate) const fn id(&self) -> h5i::hid_t {
        self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the identifier was given to this handle alone, and is released once.
        unsafe { h5i::H5Idec_ref(self.0) };
    }
}

/// The structure that is read, for error messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// Name of the structure.
    pub(crate) structure: &'static str,
    /// Address of its object header.
    pub(crate) address: u64,
}

impl At {
    /// Returns the same object with another structure.
    pub(crate) const fn structure(self, structure: &'static str) -> Self {
        Self { structure, address: self.address }
    }

    /// Converts the identifier that a call returned.
    pub(crate) fn handle(self, id: h5i::hid_t) -> Result<Handle> {
        if id < 0 { Err(self.failed()) } else { Ok(Handle(id)) }
    }

    /// Converts the status that a call returned.
    pub(crate) fn done(self, status: i32) -> Result<()> {
        if status < 0 { Err(self.failed()) } else { Ok(()) }
    }

    /// Converts the result of a call that returns true, false or an error.
    pub(crate) fn truth(self, status: i32) -> Result<bool> {
        self.done(status).map(|()| status > 0)
    }

    /// Converts the number that a call returned, which is negative on failure.
    pub(crate) fn number<T: TryInto<usize>>(self, number: T) -> Result<usize> {
        number.try_into().map_err(|_| self.failed())
    }

    /// Returns the library's last error.
    pub(crate) fn failed(self) -> Error {
        self.malformed(last_failure())
    }

    /// Creates an error for a value that the model cannot represent.
    pub(crate) fn malformed(self, problem: impl Into<String>) -> Error {
        Error::Malformed { structure: self.structure, address: self.address, problem: problem.into() }
    }

    /// Returns the text of a call that writes at most `size` bytes, including a NUL, and returns the full length.
    pub(crate) fn text<T: TryInto<usize>>(self, call: impl Fn(*mut c_char, usize) -> T) -> Result<String> {
        let length = self.number(call(std::ptr::null_mut(), 0))?;
        if length > MAX_NAME {
            return Err(self.malformed(format!("name of {length} bytes, expected at most {MAX_NAME}")));
        }
        let mut bytes = vec![0_u8; length.saturating_add(1)];
        self.number(call(bytes.as_mut_ptr().cast(), bytes.len()))?;
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Disables the library's error output.
pub(crate) fn silence() {
    // SAFETY: no callback is set, and the library takes a null pointer for its data.
    unsafe { h5e::H5Eset_auto2(h5e::H5E_DEFAULT, None, std::ptr::null_mut()) };
}

/// Returns the innermost entry of the library's error stack.
fn last_failure() -> String {
    let mut text = String::new();
    // SAFETY: the callback fits the signature, and its data outlive the call.
    unsafe {
        h5e::H5Ewalk2(h5e::H5E_DEFAULT, h5e::H5E_WALK_UPWARD, Some(note_failure), (&raw mut text).cast());
    }
    if text.is_empty() { "refused by libhdf5".to_owned() } else { format!("libhdf5: {text}") }
}

extern "C" fn note_failure(
    index: std::os::raw::c_uint,
    entry: *const h5e::H5E_error2_t,
    text: *mut std::os::raw::c_void,
) -> i32 {
    if index > 0 {
        return 0;
    }
    // SAFETY: the library passes a valid entry; `text` is the string that `last_failure` passed in; the entry's
    // description is null or ends with a NUL.
    unsafe {
        let description = (*entry).desc;
        if !description.is_null() {
            let description = CStr::from_ptr(description).to_string_lossy();
            text.cast::<String>().as_mut().into_iter().for_each(|text| text.push_str(&description));
        }
    }
    0
}

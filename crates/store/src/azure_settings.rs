//! Connection strings of Azure's storage accounts.
//! <https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string>

use object_store::azure::AzureConfigKey as Key;

/// Reason why a connection string is not valid. Messages contain none of its text, which may be secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ConnectionStringError {
    #[error("has a part without =, expected Name=Value;…")]
    Part,
    #[error("names no account, expected AccountName=…;AccountKey=…")]
    NoAccount,
}

/// Parses a connection string into settings by object_store's keys.
pub(crate) fn connection_string(text: &str) -> Result<Vec<(Key, String)>, ConnectionStringError> {
    let mut settings = Vec::new();
    let (mut account, mut suffix, mut protocol, mut endpoint) = (None, "core.windows.net", "https", None);
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or(ConnectionStringError::Part)?;
        match name.trim().to_ascii_lowercase().as_str() {
            "accountname" => account = Some(value),
            "accountkey" => settings.push((Key::AccessKey, value.to_owned())),
            "sharedaccesssignature" => {
                settings.push((Key::SasKey, value.trim_start_matches('?').to_owned()));
            }
            "endpointsuffix" => suffix = value,
            "defaultendpointsprotocol" => protocol = value,
            "blobendpoint" => endpoint = Some(value.trim_end_matches('/').to_owned()),
            "usedevelopmentstorage" => settings.push((Key::UseEmulator, value.to_owned())),
            // Settings of other services.
            _ => {}
        }
    }
    if let Some(account) = account {
        settings.push((Key::AccountName, account.to_owned()));
        endpoint = endpoint.or_else(|| Some(format!("{protocol}://{account}.blob.{suffix}")));
    }
    if let Some(endpoint) = endpoint {
        let host = endpoint.split_once("://").map_or("", |(_, host)| host);
        let named = host.split('.').next().filter(|_| account.is_none() && host.contains(".blob."));
        settings.extend(named.map(|account| (Key::AccountName, account.to_owned())));
        settings.push((Key::Endpoint, endpoint));
    }
    match settings.is_empty() {
        true => Err(ConnectionStringError::NoAccount),
        false => Ok(settings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<(String, String)> {
        let settings = connection_string(text).unwrap();
        settings.into_iter().map(|(key, value)| (key.as_ref().to_owned(), value)).collect()
    }

    #[test]
    fn accounts_keys_and_endpoints() {
        let text =
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k+/==;EndpointSuffix=core.example.net";
        let expected = [
            ("azure_storage_account_key", "k+/=="),
            ("azure_storage_account_name", "a"),
            ("azure_storage_endpoint", "https://a.blob.core.example.net"),
        ];
        let own = |pairs: &[(&str, &str)]| -> Vec<_> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(said(text), own(&expected));
        let local =
            "AccountName=a;AccountKey=k;BlobEndpoint=http://127.0.0.1:10000/a/;QueueEndpoint=http://q;";
        assert_eq!(said(local).last().unwrap().1, "http://127.0.0.1:10000/a");
        let signed = "BlobEndpoint=https://b.blob.core.windows.net/;SharedAccessSignature=?sv=1&sig=x%3D";
        let expected = [
            ("azure_storage_sas_key", "sv=1&sig=x%3D"),
            ("azure_storage_account_name", "b"),
            ("azure_storage_endpoint", "https://b.blob.core.windows.net"),
        ];
        assert_eq!(said(signed), own(&expected));
        assert_eq!(said("UseDevelopmentStorage=true")[0].1, "true");
    }

    #[test]
    fn nonsense_is_refused_without_its_text() {
        for text in ["", "secret", "TableEndpoint=http://t"] {
            assert!(!connection_string(text).unwrap_err().to_string().contains("secret"));
        }
    }
}

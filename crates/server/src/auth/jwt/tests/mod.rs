use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use jsonwebtoken::{Algorithm, EncodingKey, encode, jwk::Jwk};
use serde_json::json;

use super::*;

mod keys;

fn der(text: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(text).unwrap()
}

/// A private key: its id, its algorithm, the key.
fn private() -> Vec<(&'static str, Algorithm, EncodingKey)> {
    vec![
        ("rsa", Algorithm::RS256, EncodingKey::from_rsa_der(&der(keys::RSA))),
        ("ec", Algorithm::ES256, EncodingKey::from_ec_der(&der(keys::EC))),
        ("ed", Algorithm::EdDSA, EncodingKey::from_ed_der(&der(keys::ED))),
    ]
}

/// Returns the public key of a private one as a JWK.
fn public(id: &str, algorithm: Algorithm, key: &EncodingKey) -> Value {
    let mut jwk = serde_json::to_value(Jwk::from_encoding_key(key, algorithm).unwrap()).unwrap();
    jwk.as_object_mut().unwrap().insert("kid".to_owned(), id.into());
    jwk
}

fn all_public() -> Vec<Value> {
    private().iter().map(|(id, algorithm, key)| public(id, *algorithm, key)).collect()
}

/// A verification with a key file, which lives as long.
fn verification(keys: &[Value]) -> (tempfile::NamedTempFile, Jwt) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), json!({"keys": keys}).to_string()).unwrap();
    let expected = Expected {
        issuer: Some("https://issuer.example/".to_owned()),
        audience: vec!["virtualize".to_owned(), "other".to_owned()],
        scope_claim: "scope".to_owned(),
    };
    let allowed = Allowed::parse(["s3://bucket/"]).unwrap();
    let jwt = Jwt::new(file.path().to_str().unwrap(), expected, &allowed).unwrap();
    (file, jwt)
}

fn claims() -> Value {
    let now = now().floor();
    json!({
        "iss": "https://issuer.example/", "aud": "virtualize", "sub": "ada", "exp": now + 600.0, "nbf": now,
        "iat": now, "scope": "openid read virtualize:metrics",
    })
}

fn with(changes: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        claims.as_object_mut().unwrap().insert(name.clone(), value.clone());
    }
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

/// Signs claims with one of the keys.
fn signed(key: usize, claims: &Value) -> String {
    let (id, algorithm, key) = private().swap_remove(key);
    encode(&Header { kid: Some(id.to_owned()), ..Header::new(algorithm) }, claims, &key).unwrap()
}

#[tokio::test]
async fn claims_become_a_client() {
    let (_file, jwt) = verification(&all_public());
    for key in 0..3 {
        let client = jwt.verify(&signed(key, &claims())).await.unwrap();
        assert_eq!(client.name, "https://issuer.example/#ada");
        assert_eq!(client.scopes, Scopes { read: true, metrics: true });
        assert_eq!((client.access_key.as_str(), client.allowed.check("s3://bucket/a").is_ok()), ("", true));
    }
    let client = |changes: Value| {
        let token = signed(1, &with(&changes));
        let jwt = &jwt;
        async move { jwt.verify(&token).await.unwrap() }
    };
    let both = client(json!({"scope": ["read", "metrics", "x"], "aud": ["a", "other"]})).await;
    assert_eq!(both.scopes, Scopes::ALL);
    assert_eq!(client(json!({"scope": ""})).await.scopes, Scopes::default());
    let less = client(json!({"prefixes": ["s3://bucket/b/", "s3://elsewhere/", "s3://bucket/b/"]})).await;
    let is_allowed = |url| less.allowed.check(url).is_ok();
    assert!(is_allowed("s3://bucket/b/x") && !is_allowed("s3://bucket/a") && !is_allowed("s3://elsewhere/a"));
    let same = client(json!({"prefixes": ["s3://elsewhere/", "s3://bucket/b/"]})).await;
    assert_eq!(less.access_key, same.access_key);
    assert_ne!(client(json!({"prefixes": ["s3://bucket/b/"]})).await.access_key, less.access_key);
    for odd in ["a b", "a\nb", &"a".repeat(200), "ä"] {
        assert!(client(json!({"sub": odd})).await.name.starts_with("jwt "), "{odd}");
    }
}

#[tokio::test]
async fn claims_that_do_not_fit_are_refused() {
    let (_file, jwt) = verification(&all_public());
    let (now, far) = (now(), 1e30);
    for wrong in [
        without("exp"),
        without("aud"),
        without("iss"),
        without("sub"),
        with(&json!({"exp": now - 60.0})),
        with(&json!({"exp": "9999999999"})),
        with(&json!({"exp": null})),
        with(&json!({"exp": -1})),
        with(&json!({"exp": [now + 60.0]})),
        with(&json!({"nbf": now + 60.0})),
        with(&json!({"nbf": far})),
        with(&json!({"nbf": "0"})),
        with(&json!({"iat": now + 60.0})),
        with(&json!({"iat": true})),
        with(&json!({"aud": "someone"})),
        with(&json!({"aud": "virtualize "})),
        with(&json!({"aud": "Virtualize"})),
        with(&json!({"aud": []})),
        with(&json!({"aud": [["virtualize"]]})),
        with(&json!({"aud": {"virtualize": true}})),
        with(&json!({"iss": "https://issuer.example"})),
        with(&json!({"iss": ["https://issuer.example/"]})),
        with(&json!({"iss": null})),
        with(&json!({"sub": ""})),
        with(&json!({"sub": 7})),
        with(&json!({"scope": 7})),
        with(&json!({"scope": ["read", 7]})),
        with(&json!({"prefixes": null})),
        with(&json!({"prefixes": []})),
        with(&json!({"prefixes": "s3://bucket/"})),
        with(&json!({"prefixes": ["/etc"]})),
        with(&json!({"prefixes": ["s3://bucket/", 7]})),
        with(&json!({"prefixes": vec!["s3://bucket/"; 101]})),
        with(&json!({"padding": "x".repeat(20_000)})),
    ] {
        let refused = jwt.verify(&signed(1, &wrong)).await;
        assert!(refused.is_err(), "{wrong}");
    }
    // Small differences of the clocks are not.
    for right in [json!({"exp": now - 10.0}), json!({"nbf": now + 10.0}), json!({"iat": now + 10.0})] {
        assert!(jwt.verify(&signed(1, &with(&right))).await.is_ok(), "{right}");
    }
}

/// Signs with HMAC, where the secret is whatever an attacker knows.
fn hashed(header: &Header, secret: &[u8]) -> String {
    encode(header, &claims(), &EncodingKey::from_secret(secret)).unwrap()
}

#[tokio::test]
async fn keys_and_algorithms_are_not_confused() {
    let (_file, jwt) = verification(&all_public());
    let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let body = part(claims());
    let good = signed(1, &claims());
    let signature = good.rsplit('.').next().unwrap();
    let mut wrong = Vec::new();
    for algorithm in ["none", "None", "NONE", "", "HS256", "ES256K", "RS256", "EdDSA"] {
        for signature in ["", signature] {
            wrong.push(format!("{}.{body}.{signature}", part(json!({"alg": algorithm, "kid": "ec"}))));
            wrong.push(format!("{}.{body}.{signature}", part(json!({"alg": algorithm}))));
        }
    }
    // The public key as the secret of an HMAC, in the forms in which it circulates.
    let document = all_public();
    let texts = ["n", "x"].map(|name| document.iter().find_map(|key| key[name].as_str()).unwrap().to_owned());
    let decoded = texts.clone().map(|text| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap());
    let secrets = texts.iter().map(String::as_bytes).chain(decoded.iter().map(Vec::as_slice));
    for secret in secrets.chain([b"".as_slice(), json!({"keys": document}).to_string().as_bytes()]) {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            for kid in [None, Some("rsa".to_owned()), Some("ec".to_owned())] {
                wrong.push(hashed(&Header { kid, ..Header::new(algorithm) }, secret));
            }
        }
    }
    // A key of the attacker, also in the header of the token.
    let (_, algorithm, own) = ("", Algorithm::ES256, EncodingKey::from_ec_der(&der(keys::OTHER_EC)));
    let jwk = Jwk::from_encoding_key(&own, algorithm).ok();
    for kid in [None, Some("ec".to_owned()), Some("rsa".to_owned()), Some(String::new())] {
        for jwk in [None, jwk.clone()] {
            let header = Header { kid: kid.clone(), jwk, ..Header::new(algorithm) };
            wrong.push(encode(&header, &claims(), &own).unwrap());
        }
    }
    // A good signature under the name of another key, for another purpose, or with an unknown extension.
    let (_, _, key) = private().swap_remove(1);
    for header in [
        Header { kid: Some("rsa".to_owned()), ..Header::new(algorithm) },
        Header { kid: Some("EC".to_owned()), ..Header::new(algorithm) },
        Header { kid: Some("ec".to_owned()), typ: Some("logout+jwt".to_owned()), ..Header::new(algorithm) },
        Header { kid: Some("ec".to_owned()), crit: Some(vec!["exp".to_owned()]), ..Header::new(algorithm) },
    ] {
        wrong.push(encode(&header, &claims(), &key).unwrap());
    }
    wrong.extend(["", ".", "..", "...", "a.b.c", &good[1..], &format!("{good}.x")].map(str::to_owned));
    for token in wrong {
        assert!(jwt.verify(&token).await.is_err(), "{token}");
    }
    assert!(jwt.verify(&good).await.is_ok());
}

/// Changes random characters of tokens, and moves their parts about.
#[tokio::test]
async fn changed_tokens_are_refused() {
    let (_file, jwt) = verification(&all_public());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let good: Vec<String> = (0..3).map(|key| signed(key, &claims())).collect();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ ";
    for _ in 0..2000 {
        let from = &good[random(3)];
        let mut bytes = from.as_bytes().to_vec();
        match random(4) {
            0 => {
                let at = random(bytes.len());
                bytes[at] = alphabet[random(alphabet.len())];
            }
            1 => bytes.truncate(random(bytes.len())),
            2 => bytes.insert(random(bytes.len()), alphabet[random(alphabet.len())]),
            _ => {
                let parts = [0, 1, 2].map(|part| good[random(3)].split('.').nth(part).unwrap().to_owned());
                bytes = parts.join(".").into_bytes();
            }
        }
        let token = String::from_utf8(bytes).unwrap();
        if !good.contains(&token) {
            assert!(jwt.verify(&token).await.is_err(), "{token}");
        }
    }
}

/// Returns whether a token was verified with the current keys and is still valid.
async fn known(jwt: &Jwt, token: &str) -> Option<()> {
    let verified = jwt.verified.get(&digest(token)).await?;
    (verified.generation == jwt.keys.current().generation && !is_over(verified.expires)).then_some(())
}

#[tokio::test]
async fn verified_tokens_are_remembered_until_they_or_their_keys_end() {
    let (file, jwt) = verification(&all_public());
    let (token, ending) = (signed(1, &claims()), signed(1, &with(&json!({"exp": now() - 29.0}))));
    assert!(known(&jwt, &token).await.is_none());
    jwt.verify(&token).await.unwrap();
    jwt.verify(&ending).await.unwrap();
    assert!(known(&jwt, &token).await.is_some() && known(&jwt, &format!("{token}x")).await.is_none());
    while known(&jwt, &ending).await.is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    // A broken file keeps the keys, and another set forgets the tokens.
    std::fs::write(file.path(), "{\"keys\": []}").unwrap();
    jwt.keys.refresh().await;
    assert!(known(&jwt, &token).await.is_some());
    std::fs::write(file.path(), json!({"keys": [all_public()[0]]}).to_string()).unwrap();
    jwt.keys.refresh().await;
    assert!(known(&jwt, &token).await.is_none());
    assert!(jwt.verify(&token).await.is_err() && jwt.verify(&signed(0, &claims())).await.is_ok());
}

#[tokio::test]
async fn tokens_without_a_key_id_need_a_single_key() {
    let both = [all_public()[1].clone(), {
        let key = EncodingKey::from_ec_der(&der(keys::OTHER_EC));
        public("other", Algorithm::ES256, &key)
    }];
    let (_, algorithm, key) = private().swap_remove(1);
    let token = encode(&Header::new(algorithm), &claims(), &key).unwrap();
    assert!(verification(&both[..1]).1.verify(&token).await.is_ok());
    assert!(verification(&both).1.verify(&token).await.is_err());
}

#[test]
fn keys_for_other_purposes_are_skipped() {
    let refused = |change: Value| {
        let mut key = all_public().swap_remove(0);
        for (name, value) in change.as_object().unwrap() {
            key[name] = value.clone();
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json!({"keys": [key]}).to_string()).unwrap();
        Keys::new(file.path().to_str().unwrap()).is_err()
    };
    assert!(!refused(json!({"use": "sig", "key_ops": ["verify"], "alg": "PS384"})));
    for change in [
        json!({"use": "enc"}),
        json!({"key_ops": ["encrypt"]}),
        json!({"alg": "HS256"}),
        json!({"alg": "RSA-OAEP"}),
        json!({"alg": "ES256"}),
        json!({"kty": "oct", "k": "c2VjcmV0"}),
        json!({"kty": "what"}),
        // 1024 bits.
        json!({"n": BASE64_URL_SAFE_NO_PAD.encode([0x81; 128])}),
        json!({"n": BASE64_URL_SAFE_NO_PAD.encode([vec![0; 128], vec![0x81; 128]].concat())}),
    ] {
        assert!(refused(change.clone()), "{change}");
    }
}

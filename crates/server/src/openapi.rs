//! The OpenAPI document, which is derived from the handlers and the options of the command.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Args, Command};
use utoipa::{
    IntoParams, IntoResponses, PartialSchema, ToSchema,
    openapi::{
        Components, Content, Header, InfoBuilder, License, ObjectBuilder, OpenApi, OpenApiBuilder, Ref,
        RefOr, Required, Response, ResponseBuilder, Server,
        path::{Parameter, ParameterBuilder, ParameterIn},
        schema::{SchemaType, Type},
        security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
    },
};
use virtualize::options::MappingOptions;

use crate::problem::{Document, MAPPING, Problem};

/// A response of bytes.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "describes responses")]
pub(crate) struct Binary(Vec<u8>);

/// The mapping options as query parameters.
pub(crate) struct Mapping;

impl IntoParams for Mapping {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let command = MappingOptions::augment_args(Command::new("options"));
        let options = command
            .get_arguments()
            .filter(|option| option.get_long().is_some_and(|name| MAPPING.contains(&name)));
        let format = parameter(
            "format",
            "Output format, which also decides the Zarr version to map to",
            Type::String,
            &["kerchunk-json", "zarr3-json"],
        );
        options.map(of_option).chain([format]).collect()
    }
}

fn of_option(option: &Arg) -> Parameter {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    let choices: Vec<String> =
        option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
    let name = option.get_long().unwrap_or_default();
    match option.get_action() {
        ArgAction::SetTrue => parameter(name, &help, Type::Boolean, &[]),
        _ => parameter(name, &help, Type::String, &choices),
    }
}

fn parameter(name: &str, help: &str, kind: Type, choices: &[&str]) -> Parameter {
    let schema = ObjectBuilder::new().schema_type(SchemaType::Type(kind));
    let schema = schema.enum_values((!choices.is_empty()).then(|| choices.iter().copied()));
    let parameter =
        ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query).required(Required::False);
    parameter.description(Some(help)).schema(Some(schema)).build()
}

/// Every operation may fail with a problem document.
impl IntoResponses for Problem {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let head = ResponseBuilder::new().description("The head of the request is too large").build();
        BTreeMap::from([
            ("414".to_owned(), head.clone().into()),
            ("431".to_owned(), head.into()),
            ("default".to_owned(), Ref::from_response_name("Problem").into()),
        ])
    }
}

/// Returns the document without paths.
pub(crate) fn base() -> OpenApi {
    let problem = ResponseBuilder::new()
        .description("A problem")
        .header("Retry-After", Header::new(ObjectBuilder::new().schema_type(SchemaType::Type(Type::Integer))))
        .content("application/problem+json", Content::new(Some(Ref::from_schema_name("Problem"))));
    let mut components = Components::new();
    components.schemas.insert("Problem".to_owned(), Document::schema());
    components.responses.insert("Problem".to_owned(), problem.build().into());
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    let mut license = License::new("Apache-2.0");
    license.identifier = Some("Apache-2.0".to_owned());
    let info = InfoBuilder::new()
        .title("virtualize")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("HDF5, NetCDF and TIFF files as virtual Zarr references and as Zarr v3 stores"))
        .license(Some(license));
    OpenApiBuilder::new()
        .info(info)
        .servers(Some([Server::new("/")]))
        .components(Some(components))
        .security(Some([SecurityRequirement::new("token", [""; 0]), SecurityRequirement::default()]))
        .build()
}

/// Returns the text of a complete document.
pub(crate) fn text(mut document: OpenApi) -> String {
    // axum's notation of a parameter that contains slashes.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    document.to_json().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_options() {
        let parameters = Mapping::into_params(|| None);
        let mut names: Vec<_> = parameters.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, MAPPING);
    }
}

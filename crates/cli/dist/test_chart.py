"""Installs the Helm chart with Helm itself into an imitation of a cluster, which records the objects."""
import asyncio, contextlib, http.server, json, pathlib, subprocess, threading, tomllib

import dist, helm_sdkpy, kubernetes_validate, pytest

CHART = dist.ROOT / "crates/server/deploy/chart"
RESOURCES = {
    "v1": {"ConfigMap": "configmaps", "PersistentVolumeClaim": "persistentvolumeclaims", "Secret": "secrets", "Service": "services",
           "ServiceAccount": "serviceaccounts"},
    "apps/v1": {"Deployment": "deployments"},
    "autoscaling/v2": {"HorizontalPodAutoscaler": "horizontalpodautoscalers"},
    "networking.k8s.io/v1": {"Ingress": "ingresses"},
    "policy/v1": {"PodDisruptionBudget": "poddisruptionbudgets"},
}
KUBERNETES = "1.34"
OPEN = {"allow": ["s3://bucket/data/"], "public": True}
VARIANTS = {
    "public": {"settings": OPEN},
    "tokens": {"settings": {**OPEN, "public": False, "rate": 1000000}, "tokenSecret": "readers",
               "envFrom": [{"secretRef": {"name": "credentials"}}], "serviceAccount": {"annotations": {"role": "reader"}}},
    "ingress": {"settings": OPEN, "ingress": {"enabled": True, "host": "maps.example", "className": "nginx", "tlsSecret": "tls"}},
    "many": {"settings": OPEN, "autoscaling": {"enabled": True}},
}
KINDS = ["ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"]


class Cluster(http.server.BaseHTTPRequestHandler):
    """Answers discovery, knows no objects, and accepts each new one."""

    protocol_version = "HTTP/1.1"

    def reply(self, content, status=200, kind="application/json"):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        path = self.path.split("?")[0].strip("/")
        groups = [name for name in RESOURCES if "/" in name]
        version = {name: {"groupVersion": name, "version": name.split("/")[1]} for name in groups}
        known = {
            "version": {"major": "1", "minor": KUBERNETES.split(".")[1], "gitVersion": f"v{KUBERNETES}.0"},
            "api": {"kind": "APIVersions", "versions": ["v1"]},
            "apis": {"kind": "APIGroupList", "groups": [{"name": name.split("/")[0], "versions": [version[name]],
                                                         "preferredVersion": version[name]} for name in groups]},
            "api/v1/namespaces/default/secrets": {"kind": "SecretList", "apiVersion": "v1", "items": []},
        }
        for name, kinds in RESOURCES.items():
            known[f"apis/{name}" if "/" in name else "api/v1"] = {
                "kind": "APIResourceList", "groupVersion": name,
                "resources": [{"name": plural, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["create", "get"]}
                              for kind, plural in kinds.items()],
            }
        missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        self.reply(known.get(path, missing), 200 if path in known else 404)

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        # Helm's own record of the release is a protocol buffer.
        if self.headers["Content-Type"] == "application/json":
            self.server.objects.append(json.loads(content))
        self.reply(content, 201 if self.command == "POST" else 200, self.headers["Content-Type"])

    do_PUT = do_POST

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def cluster(folder):
    """Yields a Helm configuration, and the objects that the cluster will hold."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cluster)
    server.objects = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    file = folder / "kubeconfig"
    file.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "it", "users": [{"name": "it", "user": {}}],
        "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }))
    yield helm_sdkpy.Configuration(namespace="default", kubeconfig=str(file)), server.objects
    server.shutdown()


def installed(folder, values):
    """Returns the objects of a release, by kind."""
    with cluster(folder) as (configuration, objects):
        asyncio.run(helm_sdkpy.Install(configuration).run("maps", str(CHART), values=values, wait=False))
    return {found["kind"]: found for found in objects}


def test_the_chart_passes_helm_lint(tmp_path):
    with cluster(tmp_path) as (configuration, _):
        found = asyncio.run(helm_sdkpy.Lint(configuration).run(str(CHART)))
    assert found["TotalChartsLinted"] == 1 and not found["Errors"] and not found["Messages"], found


@pytest.mark.parametrize("name", VARIANTS)
def test_objects_are_valid(name, tmp_path):
    objects = installed(tmp_path, VARIANTS[name])
    more = {"ingress": ["Ingress"], "many": ["HorizontalPodAutoscaler"], "jobs": ["PersistentVolumeClaim"]}.get(name, [])
    assert sorted(objects) == sorted(KINDS + more)
    for found in objects.values():
        kubernetes_validate.validate(found, KUBERNETES, strict=True)
    # Every volume that is mounted exists, and the service selects the pods.
    deployment, pod = objects["Deployment"]["spec"], objects["Deployment"]["spec"]["template"]
    assert {mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]} == {volume["name"] for volume in pod["spec"]["volumes"]}
    assert objects["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert deployment["selector"]["matchLabels"] == objects["Service"]["spec"]["selector"]
    assert ("replicas" in deployment) == (name != "many")
    assert ("strategy" in deployment) == (name == "jobs")


@pytest.mark.parametrize("name", VARIANTS)
def test_the_service_accepts_the_settings(name, tmp_path):
    text = installed(tmp_path, VARIANTS[name])["ConfigMap"]["data"]["virtualize.toml"]
    settings = tomllib.loads(text)
    assert {key: settings[key] for key in VARIANTS[name]["settings"]} == VARIANTS[name]["settings"]
    file = tmp_path / "virtualize.toml"
    # An unknown setting is wrong usage, status 2; that nothing listens here is status 1.
    file.write_text(text.replace("0.0.0.0:8080", "127.0.0.1:9"))
    checked = subprocess.run([binary(), "serve", "--config", str(file), "--check-health"], capture_output=True, text=True)
    assert checked.returncode == 1 and "refused" in checked.stderr, checked


def binary():
    return dist.ROOT / "target" / dist.host() / "dist/virtualize"


@pytest.mark.parametrize("values, message", [
    ({}, "settings.allow is empty"),
    ({"settings": {"allow": ["s3://b/"]}}, "set tokenSecret, or settings.public=true"),
    ({"settings": OPEN, "jobs": {"enabled": True}, "replicaCount": 2}, "jobs.enabled needs replicaCount=1"),
    ({"settings": OPEN, "ingress": {"enabled": True}}, "ingress.host is empty"),
])
def test_values_that_cannot_work_are_refused(values, message, tmp_path):
    with pytest.raises(helm_sdkpy.InstallError, match=message):
        installed(tmp_path, values)

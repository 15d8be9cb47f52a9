"""The files of examples/deploy: what they say is valid for the programs that read them, and agrees with
what the server does."""

import json
import pathlib
import re
import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml
from parley_server import BINARY, HANG_GUARD, ROOT, ParleyServer

DEPLOY = ROOT / "examples/deploy"
OBJECTS = list(yaml.safe_load_all((DEPLOY / "kubernetes/parley.yaml").read_text(encoding="utf-8")))
# The oldest version that the manifest promises, and the newest with a schema.
VERSIONS = ["1.30", kubernetes_validate.latest_version()]


def the(kind):
    (found,) = [each for each in OBJECTS if each["kind"] == kind]
    return found


def pod():
    return the("Deployment")["spec"]["template"]["spec"]


def environment():
    """What the container's environment holds, with the secret's values."""
    values = dict(the("ConfigMap")["data"])
    (container,) = pod()["containers"]
    for each in container["env"]:
        if "fieldRef" in each.get("valueFrom", {}):
            values[each["name"]] = "10.1.2.3"
        elif "value" in each:
            # As Kubernetes puts in the variables that stand before.
            values[each["name"]] = re.sub(
                r"\$\((\w+)\)", lambda found: values[found.group(1)], each["value"])
    for each in container["env"]:
        if "secretKeyRef" not in each.get("valueFrom", {}):
            continue
        reference = each["valueFrom"]["secretKeyRef"]
        assert reference["name"] == the("Secret")["metadata"]["name"]
        values[each["name"]] = the("Secret")["stringData"][reference["key"]]
    return values


def settings(arguments, variables):
    """The effective settings of a server, which refuses anything that it does not know."""
    done = subprocess.run(
        [BINARY, *arguments, "--strict", "--print-config"], env=variables, cwd=ROOT,
        capture_output=True, text=True, timeout=HANG_GUARD, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def milliseconds(name, shown):
    return int(re.search(rf"^{name} +(\d+) ", shown, re.MULTILINE).group(1))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("value", OBJECTS, ids=lambda each: each["kind"])
def test_objects_fit_the_schema_of_kubernetes(value, version):
    kubernetes_validate.validate(value, version, strict=True)


def test_the_schema_refuses_a_misspelt_field():
    wrong = {**the("Service"), "spec": {**the("Service")["spec"], "port": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_selectors_and_ports_meet_the_pods():
    template = the("Deployment")["spec"]["template"]
    labels = template["metadata"]["labels"]
    for kind in ["Deployment", "PodDisruptionBudget"]:
        assert the(kind)["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert the("Service")["spec"]["selector"].items() <= labels.items()
    (container,) = template["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert all(each["targetPort"] in ports for each in the("Service")["spec"]["ports"])
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"]:
        assert container[probe]["httpGet"]["port"] in ports
    assert str(ports["http"]) in container["args"]


def test_the_server_knows_the_settings_of_the_pod_and_ends_within_its_grace():
    (container,) = pod()["containers"]
    shown = settings(container["args"], environment())
    drain = sum(
        milliseconds(f"{name}-ms", shown)
        for name in ["drain-delay", "drain-timeout", "close-timeout"])
    pause = 1000 * container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pause + drain < 1000 * pod()["terminationGracePeriodSeconds"]


def test_a_service_does_not_set_the_ports_variable():
    # Kubernetes would set PARLEY_PORT for a service of this name, which the server reads.
    assert the("Service")["metadata"]["name"] == "parley"
    assert pod()["enableServiceLinks"] is False


def test_the_image_has_every_library_of_the_binary():
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    installed = set(re.search(r"--no-install-recommends (.*?)&&", lines, re.DOTALL).group(1).split())
    listed = subprocess.run(["ldd", BINARY], capture_output=True, text=True, check=True).stdout
    needed = subprocess.run(
        ["objdump", "-p", BINARY], capture_output=True, text=True, check=True).stdout
    paths = [
        re.search(rf"^\s*{re.escape(name)} => (\S+)", listed, re.MULTILINE)
        for name in re.findall(r"NEEDED +(\S+)", needed)]
    names = [pathlib.Path(path.group(1)).resolve().name for path in paths if path]
    # One search for all, because it reads the lists of all packages.
    found = subprocess.run(
        ["dpkg", "-S", *(f"*/{name}" for name in names)], capture_output=True, text=True,
        check=True).stdout.splitlines()
    for name in names:
        packages = {line.split(":")[0] for line in found if line.endswith(f"/{name}")}
        # Every image of Debian has these.
        assert packages & (installed | {"libc6", "libgcc-s1"}), (name, packages)


def test_haproxy_accepts_its_configuration():
    program = shutil.which("haproxy") or "/usr/sbin/haproxy"
    done = subprocess.run(
        [program, "-c", "-f", DEPLOY / "haproxy.cfg"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd")
def test_systemd_accepts_its_units(tmp_path):
    for path in DEPLOY.glob("parley*.*"):
        text = path.read_text(encoding="utf-8")
        text = text.replace("/usr/local/lib/parley/parley", BINARY)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    units = [tmp_path / name for name in ["parley.socket", "parley.service", "parley@.service"]]
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and str(tmp_path) not in done.stderr, done.stderr
    # What the server can reach of the machine, from 0 (nothing) to 100.
    for path in units[1:]:
        judged = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--threshold=20", path],
            capture_output=True, text=True, check=False)
        assert judged.returncode == 0, judged.stdout[-500:]
    # The supervisor waits longer than the server may take.
    drain = sum(
        milliseconds(f"{name}-ms", settings(["serve"], {}))
        for name in ["drain-delay", "drain-timeout", "close-timeout"])
    for path in units[1:]:
        patience = int(re.search(r"^TimeoutStopSec=(\d+)$", path.read_text(), re.MULTILINE).group(1))
        assert drain < 1000 * patience


def test_the_dashboard_asks_for_metrics_that_the_server_has():
    dashboard = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    # Nothing listens at the model's address, so that there is a failure to count.
    with ParleyServer("--llm", "http://127.0.0.1:9/v1") as server:
        assert server.talk("--text", "hello").returncode == 1
        metrics = server.get("/metrics")[2].decode()
    shown = set(re.findall(r"^# TYPE (parley_\w+)", metrics, re.MULTILINE))
    asked = {
        re.sub("_bucket$", "", name) for panel in dashboard["panels"]
        for target in panel["targets"] for name in re.findall(r"parley_\w+", target["expr"])}
    assert len(asked) > 10 and asked <= shown

"""A company's proxy in the environment: requests to services take it, those between nodes do not
(cockroach#55289)."""

import http.server
import json
import threading
import time

import pytest
from parley_server import ParleyServer
from redis_server import RedisServer
from scripted_model import ScriptedModel
from test_signals import wait_for_log


class Proxy:
    """Refuses every request, and notes what it was asked for."""

    def __init__(self):
        self.targets = []
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def refuse(self):
                proxy.targets.append(self.path)
                self.send_response(502)
                self.send_header("content-length", "0")
                self.end_headers()

            do_GET = do_POST = do_CONNECT = refuse  # noqa: N815

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


@pytest.mark.parametrize("variable", ["http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.skipif(not RedisServer.INSTALLED, reason="redis-server is not installed")
def test_nodes_reach_each_other_without_the_proxy(variable):
    with Proxy() as proxy, RedisServer() as redis:
        options = {variable: f"http://user:hush@{proxy.url[7:]}"}
        with ParleyServer("--store", redis.url, **options) as one, \
                ParleyServer("--store", redis.url, **options) as two:
            for server in (one, two):
                while json.loads(server.get("/admin/sessions")[2])["nodes"] < 2:
                    time.sleep(0.05)
                log = wait_for_log(server, "go through a proxy", f"({variable})")
                assert "hush" not in log
            assert json.loads(one.get("/admin/sessions")[2]).get("is_complete", True)
        assert proxy.targets == []


@pytest.mark.parametrize("options, variables, is_used", [
    ([], {"http_proxy": "PROXY"}, True),
    (["--service-proxy", "PROXY"], {}, True),
    (["--service-proxy", "PROXY"], {"no_proxy": "127.0.0.1"}, False),
    (["--service-proxy", "none"], {"http_proxy": "PROXY"}, False),
    ([], {}, False),
])
def test_services_are_reached_as_the_option_or_the_variables_say(options, variables, is_used):
    with Proxy() as proxy, ScriptedModel() as model:
        options = [proxy.url if option == "PROXY" else option for option in options]
        variables = {
            name: value.replace("PROXY", proxy.url) for name, value in variables.items()}
        with ParleyServer("--llm", model.url, "--service-retries", "0", *options, **variables) as server:
            server.talk("--text", "hello")
            said = "go through a proxy" in server.log_path.read_text()
        assert bool(proxy.targets) == is_used and bool(model.requests) != is_used
        assert said == is_used or "no_proxy" in variables

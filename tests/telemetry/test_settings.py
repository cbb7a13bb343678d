"""What the standard variables ask for."""

import logging

import pytest
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

from aggregator.telemetry.otel_environment import OtelSettings, sampler, settings

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
ID = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "  "},
        {"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"},
        BASE | {"OTEL_SDK_DISABLED": "TRUE"},
        BASE | {"OTEL_TRACES_EXPORTER": "none"},
        BASE | {"OTEL_TRACES_EXPORTER": "otlp, None"},
        BASE | {"OTEL_TRACES_EXPORTER": "console"},
        BASE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
    ],
)
def test_tracing_is_off(environ: dict[str, str]) -> None:
    """Proves: D9. Without an endpoint, or where somebody says no."""
    assert settings(environ) is None


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        (BASE, OtelSettings()),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x/v1/traces"}, OtelSettings()),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, OtelSettings()),
        (BASE | {"OTEL_SDK_DISABLED": "false", "OTEL_TRACES_EXPORTER": " OTLP "}, OtelSettings()),
        (BASE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, OtelSettings("grpc")),
        (
            BASE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
            OtelSettings(),
        ),
        (
            BASE
            | {
                "OTEL_BSP_MAX_QUEUE_SIZE": "100",
                "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "300",
                "OTEL_BSP_SCHEDULE_DELAY": "250",
            },
            OtelSettings(queue=100, batch=100, delay=0.25),
        ),
    ],
)
def test_tracing_is_on(environ: dict[str, str], wanted: OtelSettings) -> None:
    """Proves: D9. As the standard says it, the variable of the traces before that of all signals."""
    assert settings(environ) == wanted


def test_what_cannot_be_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Proves: D9. The variable is named, and the default stands."""
    with caplog.at_level(logging.WARNING):
        assert settings(BASE | {"OTEL_BSP_MAX_QUEUE_SIZE": "many", "OTEL_BSP_SCHEDULE_DELAY": "-1"}) == OtelSettings()
        settings(BASE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})
        settings(BASE | {"OTEL_TRACES_EXPORTER": "zipkin"})
        sampler({"OTEL_TRACES_SAMPLER": "xray"})
        sampler({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "half"})
    named = [line.split("=")[0].rsplit(" ")[-1] for line in caplog.messages]
    assert named == [
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "OTEL_BSP_SCHEDULE_DELAY",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_TRACES_EXPORTER",
        "OTEL_TRACES_SAMPLER",
        "OTEL_TRACES_SAMPLER_ARG",
    ]


@pytest.mark.parametrize(
    ("name", "of_no_caller", "of_a_sampled_one", "of_an_unsampled_one"),
    [
        ("", True, True, False),
        ("always_on", True, True, True),
        ("always_off", False, False, False),
        ("parentbased_always_on", True, True, False),
        ("parentbased_always_off", False, True, False),
        ("ParentBased_TraceIdRatio", True, True, False),
        ("xray", True, True, False),
    ],
)
def test_the_sampler_is_the_one_asked_for(
    name: str, of_no_caller: bool, of_a_sampled_one: bool, of_an_unsampled_one: bool
) -> None:
    """Proves: D9. Parent-based ones follow the caller's flag."""
    sample = sampler({"OTEL_TRACES_SAMPLER": name})
    assert [sample(ID, caller) for caller in (None, True, False)] == [
        of_no_caller,
        of_a_sampled_one,
        of_an_unsampled_one,
    ]


@pytest.mark.parametrize("ratio", ["0", "0.1", "0.5", "1"])
def test_a_ratio_takes_the_traces_the_sdk_takes(ratio: str) -> None:
    """One trace is sampled at every hop or at none: the SDK is the oracle."""
    ours = sampler({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": ratio})
    theirs = TraceIdRatioBased(float(ratio))
    ids = [f"{n * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}" for n in range(1, 500)]
    assert [ours(one, None) for one in ids] == [
        theirs.should_sample(None, int(one, 16), "x").decision is Decision.RECORD_AND_SAMPLE for one in ids
    ]

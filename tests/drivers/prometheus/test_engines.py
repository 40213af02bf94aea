"""What each engine's page says in our words: the shared samples, and small pages of our own."""

from __future__ import annotations

import pytest

from tests.drivers.prometheus.pages import readings, sample

ENGINE = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:num_requests_waiting{engine="1",model_name="m"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.6
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 1000.0
vllm:prompt_tokens_total{engine="1",model_name="m"} 500.0
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.796e+09
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 100.0
vllm:generation_tokens_total{engine="1",model_name="m"} 900.0
"""


def test_engines_of_one_server_are_added_up_and_their_caches_averaged() -> None:
    assert readings("engine/vllm", ENGINE) == {
        "total:tokens_prompt": 1500.0,
        "computed:tokens_prompt": "REFUSED",
        "total:tokens_generated": 1000.0,
        "total:requests_running": 7.0,
        "total:requests_waiting": 2.0,
        "total:kv_cache": pytest.approx(0.4),
    }


def test_the_cache_of_vllm_before_0_11_is_found_by_its_old_name() -> None:
    old = ENGINE.replace(b"kv_cache_usage_perc", b"gpu_cache_usage_perc")
    assert readings("engine/vllm", old)["total:kv_cache"] == pytest.approx(0.4)


def test_a_family_without_a_request_yet_is_missing_and_never_zero() -> None:
    declared = b"".join(
        line for line in ENGINE.splitlines(True) if not line.startswith(b"vllm:generation")
    )
    assert readings("engine/vllm", declared)["total:tokens_generated"] == "SENTINEL"
    gone = declared.replace(b"# TYPE vllm:generation_tokens_total counter\n", b"")
    assert readings("engine/vllm", gone)["total:tokens_generated"] == "REFUSED"


def test_one_engine_of_two_that_restarts_is_no_jump_and_no_fall() -> None:
    restarted = ENGINE.replace(
        b'engine="1",model_name="m"} 900.0', b'engine="1",model_name="m"} 5.0'
    )
    on = restarted.replace(b'engine="0",model_name="m"} 100.0', b'engine="0",model_name="m"} 140.0')
    assert readings("engine/vllm", ENGINE, restarted)["total:tokens_generated"] == 1005.0
    assert readings("engine/vllm", ENGINE, restarted, on)["total:tokens_generated"] == 1045.0


def test_ranks_of_one_tensor_group_count_a_token_once() -> None:
    ranks = b"".join(
        b'sglang:realtime_tokens_total{mode="decode",tp_rank="%d",pp_rank="0",dp_rank="%d"} %d\n'
        b'sglang:num_running_reqs{tp_rank="%d",dp_rank="%d"} 8\n'
        b'sglang:num_queue_reqs{tp_rank="%d",dp_rank="%d"} 1\n'
        % (tp, dp, 100 * (dp + 1), tp, dp, tp, dp)
        for tp in range(4)
        for dp in range(2)
    )
    told = readings("engine/sglang", ranks)
    assert told["total:tokens_generated"] == 300.0
    assert told["total:requests_running"] == 16.0
    assert told["total:tokens_prompt"] == "REFUSED"


def test_sglang_tells_the_counter_that_moves_while_a_request_runs() -> None:
    both = (
        b'sglang:generation_tokens_total{model_name="m"} 700\n'
        b'sglang:realtime_tokens_total{mode="decode",model_name="m"} 750\n'
    )
    assert readings("engine/sglang", both)["total:tokens_generated"] == 750.0
    finished = both.splitlines(True)[0]
    assert readings("engine/sglang", finished)["total:tokens_generated"] == 700.0
    renamed = finished.replace(b"sglang:", b"sglang_")
    assert readings("engine/sglang", renamed)["total:tokens_generated"] == 700.0


def test_engines_without_a_sample_are_read_by_their_documented_names() -> None:
    trtllm = readings(
        "engine/trtllm",
        b'trtllm_generation_tokens_total{model_name="m",engine_type="u"} 5\n'
        b'trtllm_kv_cache_utilization{model_name="m"} 0.5\n',
    )
    assert (trtllm["total:tokens_generated"], trtllm["total:kv_cache"]) == (5.0, 0.5)
    nim = readings(
        "engine/nim", b'generation_tokens_total{model_name="m"} 9\nnum_requests_running 1\n'
    )
    assert (nim["total:tokens_generated"], nim["total:requests_running"]) == (9.0, 1.0)
    tgi = readings(
        "engine/tgi",
        b'tgi_request_generated_tokens_bucket{le="1"} 3\ntgi_request_generated_tokens_sum 77\n'
        b"tgi_batch_current_size 2\ntgi_queue_size 0\n",
    )
    assert tgi["total:tokens_generated"] == 77.0
    assert (tgi["total:requests_running"], tgi["total:requests_waiting"]) == (2.0, 0.0)


def test_the_shared_page_of_vllm() -> None:
    told = readings("engine/vllm", sample("vllm_0.33.0_metrics_sample.txt"))
    assert told == {
        "total:tokens_prompt": 812890.0,
        "computed:tokens_prompt": 0.0,
        "total:tokens_generated": 755757.0,
        "total:requests_running": 162.0,
        "total:requests_waiting": 28.0,
        "total:kv_cache": pytest.approx(0.283),
    }


def test_the_shared_page_of_sglang() -> None:
    told = readings("engine/sglang", sample("sglang_0.5.23_metrics_sample.txt"))
    assert told == {
        # With what was found in the cache, as vLLM counts too.
        "total:tokens_prompt": 812890.0 + 120000.0,
        "computed:tokens_prompt": 812890.0,
        "total:tokens_generated": 755757.0,
        "total:requests_running": 162.0,
        "total:requests_waiting": 28.0,
        "total:kv_cache": pytest.approx(0.28),
    }


def test_the_shared_page_of_an_older_sglang() -> None:
    told = readings("engine/sglang", sample("sglang_docs_sample_legacy.txt"))
    assert told == {
        "total:tokens_prompt": 8128902.0,
        "computed:tokens_prompt": "REFUSED",
        "total:tokens_generated": 7557572.0,
        "total:requests_running": 162.0,
        "total:requests_waiting": 2826.0,
        "total:kv_cache": pytest.approx(0.28),
    }


def test_the_shared_page_of_triton_counts_no_tokens() -> None:
    told = readings("engine/triton-trtllm", sample("triton_trtllm_metrics_sample.txt"))
    assert told == {
        "total:requests_running": 1.0,
        "total:requests_waiting": 1.0,
        "total:kv_cache": pytest.approx(0.4875),
    }


def test_the_shared_page_of_llama_cpp() -> None:
    told = readings("engine/llamacpp", sample("llamacpp_metrics_sample.txt"))
    assert told == {
        "total:tokens_prompt": 3000.0,
        "total:tokens_generated": 50.0,
        "total:requests_running": 1.0,
        "total:requests_waiting": 3.0,
        "total:kv_cache": "REFUSED",
    }

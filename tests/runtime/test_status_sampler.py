"""Samples of what no effect reports."""

from __future__ import annotations

import logging

import pytest
from tests.runtime.idle_transport import IdleTransport

import phalanx
from phalanx.core.ids import MemberId, boot_view
from phalanx.core.member.member import Member
from phalanx.runtime.event_log import EventLog
from phalanx.runtime.status_sampler import SAMPLE_NS, StatusSampler

ADA = MemberId("ada")


def test_a_sample_is_due_four_times_a_second_and_logs_the_transport(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = phalanx.lan()
    member = Member(ADA, boot_view([ADA]), "g", config, 7)
    transport = IdleTransport()
    sampler = StatusSampler(member, transport, EventLog("g", ADA, config))
    now = 10**9
    assert sampler.is_due(now)
    transport.counts["unreachable"] = 3
    with caplog.at_level(logging.WARNING, "phalanx"):
        sampler.sample(now, waiting_bytes=0, dropped=0)
    assert "3 lost here, unreachable" in caplog.text
    assert not sampler.is_due(now + SAMPLE_NS - 1)
    assert sampler.is_due(now + SAMPLE_NS)
    assert sampler.blocked_by == {}

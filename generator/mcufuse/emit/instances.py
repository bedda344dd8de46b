# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Which steps share the code of a kernel.

A kernel is inlined into a function of the network with a constant configuration: small, fast code for one shape. Steps
with equal configurations share such an instance. Steps that differ only in fields that the kernel can take at run time
(`Lowered.variable`) form a family; where it is large enough, one instance serves it, which reads just those fields from
a struct and still knows all others at compile time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..kernels.base import CStruct, CValue
from ..schedule import Feed, Step
from .ctext import struct_initializer

__all__ = ["Instance", "choose_instances", "instance_text", "shape_text"]


@dataclass(frozen=True, slots=True)
class Instance:
    """A function of the network that runs one kernel."""

    label: str  # "kws_conv2d_0"
    function: str  # the kernel
    cfg: CStruct  # of the first user
    data_type: str
    variable: tuple[str, ...]  # fields of cfg that differ between users: read at run time
    users: tuple[str, ...]  # step names


def choose_instances(
    net: str, names: Sequence[str], steps: Sequence[Step], least_to_share: int
) -> tuple[tuple[Instance, ...], dict[str, Instance]]:
    """(instances, instance by step name). A family of `least_to_share` or more configurations shares one."""
    by_name = dict(zip(names, steps, strict=True))
    families: dict[tuple[object, ...], list[str]] = {}
    for name, step in by_name.items():
        if not isinstance(step.op, Feed):
            families.setdefault(step.lowered.family, []).append(name)
    instances: list[Instance] = []
    for members in families.values():
        cfgs = dict.fromkeys(by_name[n].lowered.cfg for n in members)
        shared = len(cfgs) >= least_to_share
        for cfg in [next(iter(cfgs))] if shared else cfgs:
            users = tuple(n for n in members if shared or by_name[n].lowered.cfg == cfg)
            values = [dict(by_name[n].lowered.cfg.fields) for n in users]
            variable = tuple(f for f, _ in cfg.fields if any(v[f] != values[0][f] for v in values))
            low = by_name[users[0]].lowered
            noun = low.function.removeprefix("mf_").split("_row")[0]
            label = f"{net}_{noun}_{len(instances)}"
            instances.append(Instance(label, low.function, cfg, low.data.type, variable, users))
    return tuple(instances), {name: i for i in instances for name in i.users}


def instance_text(instance: Instance, arrays: Mapping[tuple[str, bytes], str]) -> tuple[str, list[str], str]:
    """(text before the function, its parameters, its body)."""
    parameters = [f"const struct {instance.data_type} *data", "const int8_t *const *in", "int8_t *out", "int y"]
    parameters.append("void *scratch")
    struct = f"struct {instance.cfg.type}"
    if not instance.variable:
        before = f"static const {struct} {instance.label}_cfg = {struct_initializer(instance.cfg, arrays)};\n\n"
        return before, parameters, f"\t{instance.function}(&{instance.label}_cfg, data, in, out, y, scratch);\n"
    fields: tuple[tuple[str, CValue], ...] = tuple(
        (name, f"shape->{name}" if name in instance.variable else value) for name, value in instance.cfg.fields
    )
    constants = struct_initializer(CStruct(instance.cfg.type, fields), arrays).replace("\n", "\n\t")
    body = f"\tconst {struct} cfg = {constants};\n\n\t{instance.function}(&cfg, data, in, out, y, scratch);\n"
    return "", [f"const {struct} *shape", *parameters], body


def shape_text(label: str, step: Step, instance: Instance, arrays: Mapping[tuple[str, bytes], str]) -> str:
    """What a step passes to a shared instance: the fields that differ between its users."""
    fields = tuple(f for f in step.lowered.cfg.fields if f[0] in instance.variable)
    values = struct_initializer(CStruct(instance.cfg.type, fields), arrays)
    return f"static const struct {instance.cfg.type} {label} = {values};\n"

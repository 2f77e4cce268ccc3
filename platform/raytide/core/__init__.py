"""The control core: a pure state machine that decides which job has which slots."""

from raytide.core.batch import BatchLimits, Split, split_batch
from raytide.core.cluster import Cluster, PlacementError
from raytide.core.controller import Controller, ControllerConfig
from raytide.core.costs import Costs
from raytide.core.goodput import Goodput, GradientNoise, StepSample, Training, goodput_of
from raytide.core.job import Job
from raytide.core.lifecycle import IllegalTransition, JobState
from raytide.core.model import NOTHING, NOWHERE, JobSpec, Node, Placement, Role, Shape, replicas, rigid
from raytide.core.past import Past
from raytide.core.policy import Decision, EventDriven, Placer, Policy, PolicyError, Rounds
from raytide.core.speed import (
    LinearSpeed,
    Measurement,
    ServerSpeed,
    ShapeSpeedModel,
    SpeedCurve,
    SpeedModel,
    SpeedTable,
    TypedSpeed,
    fit_curve,
)
from raytide.core.tenants import Tenant, TenantTree
from raytide.core.view import View

__all__ = [
    "NOTHING",
    "NOWHERE",
    "BatchLimits",
    "Cluster",
    "Controller",
    "ControllerConfig",
    "Costs",
    "Decision",
    "EventDriven",
    "Goodput",
    "GradientNoise",
    "IllegalTransition",
    "Job",
    "JobSpec",
    "JobState",
    "LinearSpeed",
    "Measurement",
    "Node",
    "Past",
    "Placement",
    "PlacementError",
    "Placer",
    "Policy",
    "PolicyError",
    "Role",
    "Rounds",
    "ServerSpeed",
    "Shape",
    "ShapeSpeedModel",
    "SpeedCurve",
    "SpeedModel",
    "SpeedTable",
    "Split",
    "StepSample",
    "Tenant",
    "TenantTree",
    "Training",
    "TypedSpeed",
    "View",
    "fit_curve",
    "goodput_of",
    "replicas",
    "rigid",
    "split_batch",
]

// Volumes that a launch made itself: found by what EC2 shows (the role tag of the launch, the
// instance, the device name, not being the base's root), then tagged as a node's own, which makes
// its attachment a lease like any other. A few get their names at once. Many are claimed by one
// call, which gives them all the same tag while the ledger says which is whose; their names follow
// one by one. A crash in between ends right: claimed and without a name, a volume is nobody's
// spare, and where the ledger is lost its attachment finds it a node again.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// The device that a launch gives the volume it makes.
inline constexpr const char* kLaunchDevice = "/dev/sdf";
/// Of every volume that such a launch makes, the base's root included.
inline constexpr const char* kRoleLaunch = "launch";
/// Of an instance launched with a volume: the volume's device name.
inline constexpr const char* kTagLaunchVolume = "warmroot:launch-volume";

/// Gives volumes of launches to the nodes that have none (asked and covered are set), keeps the
/// others as spares.
void adopt(Draft& draft);

/// True for a volume that carries the role of a launch and belongs to no node yet.
bool is_from_launch(const aws::Volume& volume);

/// True for a volume that was claimed for a node and does not carry its name yet.
bool is_unnamed(const aws::Volume& volume);

/// The node that the ledger has the volume as; empty: none.
std::string claimed_for(const Draft& draft, const aws::Volume& volume);

/// Names volumes that were claimed, with the tokens that the rules before left.
void name_claimed(Draft& draft);

/// How many of `nodes` volumes should come with the launch: where more are needed than attaches may
/// be sent at once, all of them. Up to then AttachVolume is as fast: create (1.5 s) ends before the
/// instance runs (call 1.5 s, pending 5 s), attach (2 s) before the bootstrap looks for a disk
/// (3 s and more after running), and no confirmation is needed. Beyond the bucket each attach waits
/// 1/5 s, while one call claims all volumes that have come. Source of the times: ec2.md 2.1, 2.3.
int volumes_by_launch(int nodes, int attaches_now);

}  // namespace warmroot::core

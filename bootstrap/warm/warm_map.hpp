// The warm map: which grid blocks of one volume have been read already, as bytes of a file kept on
// that volume. It is untrusted input (the session's root can write it), so a map that does not fit
// is refused with a reason, and the warmer still samples what a fitting one claims. Pure;
// volume_file reads and writes the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"

namespace warmroot::warm {

/// Whose map it is. The volume has to agree before a map is believed, and its size then may not be
/// larger than now: volumes grow.
struct MapIdentity {
  std::string volume_id;
  std::uint64_t device_bytes = 0;
};

/// The file's content: a 128 byte header (magic, version, grid, device size, volume id, checksum),
/// then the bitmap in little-endian 64-bit words.
/// Requires present.size() == grid_blocks(identity.device_bytes).
std::string encode_map(const MapIdentity& identity, const BlockSet& present);

/// The present blocks of a map; of a volume that has grown since, what is new is absent. Errors,
/// one sentence each: broken when it is cut short or damaged, misconfigured when it is another
/// volume's, a larger device's, another grid's or another version's.
Result<BlockSet> decode_map(std::string_view bytes, const MapIdentity& identity);

/// The largest file that decode_map can accept for such a device; reading more is pointless.
std::uint64_t map_bytes(std::uint64_t device_bytes);

}  // namespace warmroot::warm

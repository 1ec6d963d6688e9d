#include "manager/core/stock_census.hpp"

namespace warmroot::core {

namespace {

bool works(const aws::Volume& volume) {
  using enum aws::VolumeState;
  return (volume.state == creating || volume.state == available) &&
         !has_tag(volume.tags, kTagQuarantined) && !has_tag(volume.tags, kTagRetired);
}

/// The key's id, also of its ARN; in small letters.
std::string key_of(const std::string& name) {
  std::string id = name.substr(name.rfind('/') + 1);
  for (char& letter : id)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return id;
}

}  // namespace

bool is_encrypted_as_asked(const VolumeSpec& spec, const aws::Volume& volume) {
  if (!spec.encrypted) return true;
  if (!volume.encrypted) return false;
  // EC2 shows the key's ARN, of which the spec may name the end. What an alias stands for, and
  // which key is the account's own, it does not say.
  const bool told = !spec.kms_key.empty() && !volume.kms_key_id.empty() &&
                    spec.kms_key.find("alias/") == std::string::npos;
  return !told || key_of(volume.kms_key_id) == key_of(spec.kms_key);
}

void count_shown_stock(Draft& draft, PoolDraft& pool, const aws::Volume& volume, VolumeRole role) {
  const auto* record = draft.ledger.volumes.get(volume.volume_id);
  const bool recorded = record;
  OwnedVolume owned{pool.spec->name, "", volume.availability_zone, draft.now, true, false, role};
  if (recorded) owned = *record;
  const bool seen_before = recorded && owned.seen;
  const bool used_before = owned.ever_used;
  owned.seen = true;
  // Whoever attached it has written to it: it is somebody's volume for ever.
  owned.ever_used = used_before || attachment_of(volume) || draft.holder_of(volume.volume_id);
  if (!seen_before || owned.ever_used != used_before)
    draft.record(RecordVolume{volume.volume_id, owned});
  StockDraft made{volume.volume_id,   role,    volume.availability_zone,
                  lineage_of(volume), &volume, false};
  made.fit = works(volume) && !owned.ever_used && !pool.source.snapshot_id.empty() &&
             made.lineage == pool.source.snapshot_id &&
             is_encrypted_as_asked(pool.spec->volumes, volume);
  pool.stock.push_back(std::move(made));
}

}  // namespace warmroot::core

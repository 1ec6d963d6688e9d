// The record of a volume that is mounted, from one process to the next.
#include "bootstrap/held_volume.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warmroot::bootstrap {
namespace {

HeldRecord whole() {
  HeldRecord record;
  HeldVolume& volume = record.volume;
  volume.disk_node = "/dev/nvme1n1";
  volume.disk = {"nvme1n1", "259:1", "17"};
  volume.partition_node = "/dev/nvme1n1p1";
  volume.partition.number = 1;
  volume.partition.offset_bytes = 1 << 20;
  volume.partition.size_bytes = std::uint64_t{20} << 30;
  volume.partition.content = "ext4";
  volume.partition.node = "/dev/nvme1n1p1";
  volume.partition.uuid = "1cd5-01";
  volume.also_mounted = {"srv", "home with a blank"};
  volume.other_devices = {66307, 66308};
  volume.volume_id = "vol-0abc";
  volume.instance_id = "i-1";
  volume.launch_key = "ssh-ed25519 AAAA launch";
  volume.served_by = EntryKind::sshd;
  volume.untried = true;
  volume.root_device = 66306;
  volume.volume_os = "Debian \"12\"\n";
  volume.root_choice = "partition 1, the only one";
  volume.fstab = {{"of the volume's fstab, /data is not mounted", true}, {"swap", false}};
  record.leaving = StopReason{"manager-wish", "the manager asked for the volume", 4711};
  return record;
}

TEST(HeldVolume, what_is_read_is_what_was_written) {
  const std::string text = held_document(whole());
  const auto read = parse_held_document(text);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(held_document(*read), text) << "every field of it";
  const HeldVolume& volume = read->volume;
  EXPECT_EQ(volume.disk.sequence, "17");
  EXPECT_EQ(volume.partition.size_bytes, std::uint64_t{20} << 30);
  EXPECT_EQ(volume.partition.uuid, "1cd5-01");
  EXPECT_THAT(volume.also_mounted, testing::ElementsAre("srv", "home with a blank"));
  EXPECT_THAT(volume.other_devices, testing::ElementsAre(66307u, 66308u));
  EXPECT_EQ(volume.root_device, 66306u);
  EXPECT_EQ(volume.volume_os, "Debian \"12\"\n");
  ASSERT_EQ(volume.fstab.size(), 2u);
  EXPECT_TRUE(volume.fstab[0].for_people);
  EXPECT_FALSE(volume.fstab[1].for_people);
  ASSERT_TRUE(read->leaving);
  EXPECT_EQ(read->leaving->word, "manager-wish");
  EXPECT_EQ(read->leaving->deadline_ms, 4711);
  EXPECT_EQ(volume.served_by, EntryKind::sshd);
  EXPECT_TRUE(volume.untried);
}

TEST(HeldVolume, one_that_serves_is_not_said_to_leave) {
  HeldRecord record = whole();
  record.leaving.reset();
  const auto read = parse_held_document(held_document(record));
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->leaving);
}

/// A disk that was full when it was written, or an editor.
TEST(HeldVolume, a_document_that_was_cut_short_or_lacks_a_field_is_none) {
  const std::string text = held_document(whole());
  for (std::size_t bytes = 0; bytes + 2 < text.size(); ++bytes)
    EXPECT_FALSE(parse_held_document(text.substr(0, bytes))) << bytes;
  for (const char* field :
       {"disk_node", "disk_sequence", "partition", "offset_bytes", "volume_id", "other_devices",
        "root_device", "served_by", "untried", "fstab", "for_people", "word", "deadline_ms"}) {
    std::string lacks = text;
    lacks.replace(lacks.find("\"" + std::string(field) + "\"") + 1, 1, "?");
    EXPECT_FALSE(parse_held_document(lacks)) << field;
  }
  for (const char* other : {"null", "[]", "7", "\"text\"", "{\"disk_node\":7}"})
    EXPECT_FALSE(parse_held_document(other)) << other;
}

/// The first number of this field is another.
std::string with_number(std::string text, const std::string& field, const std::string& number) {
  constexpr char kDigits[] = "0123456789";
  const std::size_t at = text.find_first_of(kDigits, text.find("\"" + field + "\":"));
  return text.replace(at, text.find_first_not_of(kDigits, at) - at, number);
}

/// Of a float that an integer cannot hold a cast may make anything, and it was cast.
TEST(HeldVolume, a_number_that_cannot_be_true_makes_it_none) {
  struct Field {
    const char* name;
    const char* most;
    const char* more;
  };
  constexpr char kMost64[] = "18446744073709551615", kMore64[] = "18446744073709551616";
  const std::string text = held_document(whole());
  for (const Field& field : {Field{"number", "2147483647", "2147483648"},
                             {"offset_bytes", kMost64, kMore64},
                             {"size_bytes", kMost64, kMore64},
                             {"other_devices", kMost64, kMore64},
                             {"root_device", kMost64, kMore64},
                             {"deadline_ms", "1000000000000", "1000000000001"}}) {
    for (const char* number : {"0", field.most}) {
      const std::string good = with_number(text, field.name, number);
      const auto read = parse_held_document(good);
      ASSERT_TRUE(read) << field.name << " " << number;
      EXPECT_EQ(held_document(*read), good);
    }
    for (const char* number : {field.more, "1e300", "-1e300", "1e19", "1.5", "1.0", "-1",
                               "-9223372036854775808", "true", "null", "\"1\"", "[1]", "{}"})
      EXPECT_FALSE(parse_held_document(with_number(text, field.name, number)))
          << field.name << " " << number;
  }
}

}  // namespace
}  // namespace warmroot::bootstrap

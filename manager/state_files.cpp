#include "manager/state_files.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

namespace warmroot::manager {

namespace fs = std::filesystem;

Ok replace_file(const std::string& path, std::string_view bytes) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string temporary = path + ".new";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << bytes;
    if (!file.flush()) {
      fs::remove(temporary, error);
      return fail(ErrorKind::retry_later, temporary + " cannot be written");
    }
  }
  fs::rename(temporary, path, error);
  if (!error) return {};
  const int why = error.value();
  fs::remove(temporary, error);
  return fail(errno_error("renaming " + temporary, why));
}

void forget_oldest(const std::string& directory, std::string_view suffix, std::size_t most,
                   const std::set<std::string>& kept) {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == suffix && !kept.contains(at->path().stem().string()))
      files.emplace_back(at->last_write_time(error), at->path());
  if (files.size() <= most) return;
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i < files.size() - most; ++i) fs::remove(files[i].second, error);
}

}  // namespace warmroot::manager

// Own answers to the name service calls that libmount and libcurl make, so that no part of glibc's
// NSS is linked: it would load shared libraries of another version at run time, and costs 150 KB.
// Linked into the static program alone. Users and groups are never looked up by name; host names
// are numeric or in /etc/hosts.

#include <arpa/inet.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/// One address with its socket address behind it, so that freeaddrinfo frees one block.
struct Answer {
  addrinfo info;
  sockaddr_storage storage;
};

bool parse_numeric(const char* text, sockaddr_storage& storage, socklen_t& length) {
  std::memset(&storage, 0, sizeof storage);
  auto* four = reinterpret_cast<sockaddr_in*>(&storage);
  auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    length = sizeof *four;
    return true;
  }
  if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    length = sizeof *six;
    return true;
  }
  return false;
}

/// First address of `name` in /etc/hosts that has this family (or any).
bool look_in_hosts(const char* name, int family, sockaddr_storage& storage, socklen_t& length) {
  FILE* hosts = std::fopen("/etc/hosts", "re");
  if (hosts == nullptr) return false;
  char line[1024];
  bool found = false;
  while (!found && std::fgets(line, sizeof line, hosts) != nullptr) {
    if (char* comment = std::strchr(line, '#')) *comment = '\0';
    char* rest = nullptr;
    const char* address = strtok_r(line, " \t\r\n", &rest);
    if (address == nullptr || !parse_numeric(address, storage, length)) continue;
    if (family != AF_UNSPEC && family != storage.ss_family) continue;
    while (const char* alias = strtok_r(nullptr, " \t\r\n", &rest))
      if (strcasecmp(alias, name) == 0) found = true;
  }
  std::fclose(hosts);
  return found;
}

}  // namespace

extern "C" {

int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
  const int family = hints != nullptr ? hints->ai_family : AF_UNSPEC;
  auto* answer = static_cast<Answer*>(std::calloc(1, sizeof(Answer)));
  if (answer == nullptr) return EAI_MEMORY;
  socklen_t length = 0;
  const char* name = node != nullptr ? node : "127.0.0.1";
  const bool known = (parse_numeric(name, answer->storage, length) &&
                      (family == AF_UNSPEC || family == answer->storage.ss_family)) ||
                     look_in_hosts(name, family, answer->storage, length);
  if (!known) {
    std::free(answer);
    return EAI_NONAME;
  }
  const auto port = htons(static_cast<std::uint16_t>(service != nullptr ? std::atoi(service) : 0));
  if (answer->storage.ss_family == AF_INET)
    reinterpret_cast<sockaddr_in*>(&answer->storage)->sin_port = port;
  else
    reinterpret_cast<sockaddr_in6*>(&answer->storage)->sin6_port = port;
  answer->info.ai_family = answer->storage.ss_family;
  answer->info.ai_socktype =
      hints != nullptr && hints->ai_socktype != 0 ? hints->ai_socktype : SOCK_STREAM;
  answer->info.ai_protocol = hints != nullptr ? hints->ai_protocol : 0;
  answer->info.ai_addrlen = length;
  answer->info.ai_addr = reinterpret_cast<sockaddr*>(&answer->storage);
  *result = &answer->info;
  return 0;
}

void freeaddrinfo(addrinfo* info) {
  std::free(info);  // the first member of Answer
}

const char* gai_strerror(int) {
  return "only IP addresses and names in /etc/hosts are known to warmroot-bootstrap";
}

int getpwnam_r(const char*, passwd*, char*, size_t, passwd** result) {
  *result = nullptr;
  return ENOENT;
}
int getpwuid_r(uid_t, passwd*, char*, size_t, passwd** result) {
  *result = nullptr;
  return ENOENT;
}
int getgrnam_r(const char*, group*, char*, size_t, group** result) {
  *result = nullptr;
  return ENOENT;
}
passwd* getpwuid(uid_t) {
  return nullptr;
}
passwd* getpwnam(const char*) {
  return nullptr;
}
group* getgrgid(gid_t) {
  return nullptr;
}
group* getgrnam(const char*) {
  return nullptr;
}

}  // extern "C"

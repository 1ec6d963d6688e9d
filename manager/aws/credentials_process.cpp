// A program of the operator's that prints credentials: credential_process.
#include <optional>

#include "manager/aws/credentials_provider.hpp"
#include "manager/aws/split_command.hpp"

namespace warmroot::aws {

Looked find_process(const Lookup& lookup) {
  const std::string command = lookup.value("credential_process");
  if (command.empty()) return std::optional<FoundCredentials>{};
  // The command line may hold secrets, so no message shows more than the program's name.
  const auto arguments = split_command(command);
  if (!arguments || arguments->empty())
    return fail(ErrorKind::misconfigured,
                lookup.label() + ": credential_process is no command (check its quotes)");
  const std::string source = "credential_process of " + lookup.label();
  const auto text = lookup.from.run(*arguments, {});
  if (!text)
    return fail(ErrorKind::unauthorised,
                source + ": " + text.error().message() + "; run it by hand to see what it says");
  auto keys = parse_process_credentials(text->reveal());
  if (!keys)
    return fail(ErrorKind::misconfigured,
                source + ": what " + arguments->front() +
                    " printed is not as it has to be: " + keys.error().context);
  return std::optional<FoundCredentials>(as_found(std::move(*keys), source));
}

}  // namespace warmroot::aws

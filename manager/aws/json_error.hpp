// What the services with JSON answers (SQS, EBS direct) have in common in their answers. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace warmroot::aws {

/// "com.amazonaws.sqs#QueueDoesNotExist:http://..." to "QueueDoesNotExist": the type of an error,
/// as x-amzn-errortype or `__type` say it, without namespace and link.
std::string bare_error_type(std::string type);

/// The type says that keys, signature or permission were not accepted.
bool is_denial(const std::string& type);

/// The text called `member`; empty when it is no text, and when `object` is no object.
std::string text_of(const nlohmann::json& object, const char* member);

}  // namespace warmroot::aws

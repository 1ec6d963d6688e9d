#!/bin/sh
# Drives the simulated region with the stock AWS CLI (Debian's awscli): whatever the CLI sends has to be understood, and
# what it prints has to be right. Copies of volumes and queues are left out where the CLI is as old as Debian 12's 2.9, which
# knows neither. Needs neither root nor guests. The program is $WARMROOT_SIM_BIN, else build/release's.
# Called by ctest; usage: sh tests/awscli_test.sh
set -eu
cd "$(dirname "$0")/.."
sim=${WARMROOT_SIM_BIN:-build/release/warmroot-sim}
aws_program=/usr/bin/aws
[ -x "$aws_program" ] || aws_program=$(command -v aws || true)

skip() {
  if [ "${WARMROOT_MUST_RUN:-0}" = 1 ]; then
    echo "awscli_test: $1" >&2
    exit 1
  fi
  echo "awscli_test: SKIPPED: $1"
  exit 77
}
[ -x "$sim" ] || skip "there is no $sim"
[ -n "$aws_program" ] || skip "the AWS CLI is not installed (apt-get install awscli)"

work=$(mktemp -d)
server=
finish() {
  status=$?
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  [ "$status" = 0 ] || sed 's/^/region: /' "$work/log" >&2
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

"$sim" serve --no-machines --creating-ms 300 --pending-ms 15000 --attach-ms 300 --detach-ms 300 --shutdown-ms 500 \
  >"$work/out" 2>"$work/log" &
server=$!
tries=0
until grep -q '^endpoint=' "$work/out"; do
  tries=$((tries + 1))
  [ "$tries" -lt 100 ] || { echo "awscli_test: the region did not start" >&2; exit 1; }
  sleep 0.1
done
endpoint=$(sed -n 's/^endpoint=//p' "$work/out")

# Nothing of the caller's own AWS set-up may leak in.
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL AWS_CA_BUNDLE 2>/dev/null || true
export AWS_ACCESS_KEY_ID=AKIDEXAMPLE AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY
export AWS_DEFAULT_REGION=us-east-1 AWS_REGION=us-east-1 AWS_PAGER= AWS_EC2_METADATA_DISABLED=true
export AWS_CONFIG_FILE="$work/none" AWS_SHARED_CREDENTIALS_FILE="$work/none" AWS_MAX_ATTEMPTS=1
export no_proxy=127.0.0.1 NO_PROXY=127.0.0.1

# ec2 ARGUMENTS: one call, answer as text.
ec2() { "$aws_program" --endpoint-url "$endpoint" --output text --cli-read-timeout 20 ec2 "$@"; }

# same WHAT WANTED GOT
same() {
  [ "$2" = "$3" ] || { echo "awscli_test: $1: wanted '$2', got '$3'" >&2; exit 1; }
  echo "ok: $1"
}

# refused WHAT CODE ARGUMENTS: the call has to fail with EC2's code.
refused() {
  what=$1 code=$2
  shift 2
  if ec2 "$@" >"$work/answer" 2>&1; then
    echo "awscli_test: $what: was not refused: $(cat "$work/answer")" >&2
    exit 1
  fi
  grep -q "($code)" "$work/answer" || { echo "awscli_test: $what: wanted $code, got $(cat "$work/answer")" >&2; exit 1; }
  echo "ok: $what"
}

# becomes WHAT WANTED ARGUMENTS: the answer within 20 seconds.
becomes() {
  what=$1 wanted=$2
  shift 2
  tries=0
  while :; do
    got=$(ec2 "$@")
    [ "$got" != "$wanted" ] || break
    tries=$((tries + 1))
    [ "$tries" -lt 60 ] || same "$what" "$wanted" "$got"
    sleep 0.3
  done
  echo "ok: $what"
}

same "zones" "us-east-1a us-east-1b" \
  "$(ec2 describe-availability-zones --query 'AvailabilityZones[].ZoneName' | tr '\t' ' ')"
same "the image's root snapshot" snap-01000000000000001 \
  "$(ec2 describe-images --owners self --filters Name=name,Values='session-r*t' \
    --query 'Images[].BlockDeviceMappings[].Ebs.SnapshotId')"
same "the snapshot's size" 8 \
  "$(ec2 describe-snapshots --snapshot-ids snap-01000000000000001 --query 'Snapshots[].VolumeSize')"
same "the subnet's zone" us-east-1b \
  "$(ec2 describe-subnets --filters Name=availability-zone,Values=us-east-1b --query 'Subnets[].AvailabilityZone')"
same "spot prices of one type in all zones" 2 \
  "$(ec2 describe-spot-price-history --instance-types g5.12xlarge --product-descriptions Linux/UNIX \
    --start-time 2026-01-01T00:00:00Z --query 'length(SpotPriceHistory)')"

volume=$(ec2 create-volume --availability-zone us-east-1a --snapshot-id snap-01000000000000001 --volume-type gp3 \
  --tag-specifications 'ResourceType=volume,Tags=[{Key=warmroot:node,Value=imagenet-0}]' --query VolumeId)
becomes "the volume becomes available" available \
  describe-volumes --volume-ids "$volume" --query 'Volumes[].State'
instance=$(ec2 run-instances --image-id ami-02000000000000002 --instance-type g5.12xlarge --count 1 \
  --subnet-id subnet-01000000000000001 --key-name operator --client-token first-launch \
  --instance-market-options 'MarketType=spot,SpotOptions={SpotInstanceType=one-time}' \
  --instance-initiated-shutdown-behavior terminate --user-data '#!/bin/sh' \
  --metadata-options 'HttpTokens=required,InstanceMetadataTags=enabled' \
  --tag-specifications 'ResourceType=instance,Tags=[{Key=warmroot:pool,Value=imagenet}]' \
  --query 'Instances[].InstanceId')
refused "an attach to a pending instance" IncorrectState \
  attach-volume --volume-id "$volume" --instance-id "$instance" --device /dev/sdf
same "a repeated launch is the same instance" "$instance" \
  "$(ec2 run-instances --image-id ami-02000000000000002 --instance-type g5.12xlarge --count 1 \
    --subnet-id subnet-01000000000000001 --key-name operator --client-token first-launch \
    --instance-market-options 'MarketType=spot,SpotOptions={SpotInstanceType=one-time}' \
    --instance-initiated-shutdown-behavior terminate --user-data '#!/bin/sh' \
    --metadata-options 'HttpTokens=required,InstanceMetadataTags=enabled' \
    --tag-specifications 'ResourceType=instance,Tags=[{Key=warmroot:pool,Value=imagenet}]' \
    --query 'Instances[].InstanceId')"
refused "the same token for another launch" IdempotentParameterMismatch \
  run-instances --image-id ami-02000000000000002 --instance-type g5.xlarge --count 1 \
  --subnet-id subnet-01000000000000001 --client-token first-launch
becomes "the instance runs, found by its tag" "$instance running spot" \
  describe-instances --filters Name=tag:warmroot:pool,Values=imagenet Name=instance-state-name,Values=running \
  --query "Reservations[].Instances[].join(' ', [InstanceId, State.Name, InstanceLifecycle])"
same "its status checks" "ok ok" \
  "$(ec2 describe-instance-status --instance-ids "$instance" \
    --query 'InstanceStatuses[].[InstanceStatus.Status, SystemStatus.Status]' | tr '\t' ' ')"

same "attaching" attaching \
  "$(ec2 attach-volume --volume-id "$volume" --instance-id "$instance" --device /dev/sdf --query State)"
becomes "attached, kept on termination" "in-use attached false" \
  describe-volumes --filters Name=tag:warmroot:node,Values=imagenet-0 \
  --query "Volumes[].join(' ', [State, Attachments[0].State, to_string(Attachments[0].DeleteOnTermination)])"
refused "a second attach" VolumeInUse \
  attach-volume --volume-id "$volume" --instance-id "$instance" --device /dev/sdg
refused "deleting an attached volume" VolumeInUse delete-volume --volume-id "$volume"

ec2 create-tags --resources "$volume" "$instance" --tags 'Key=owner,Value=a b&c <d>'
same "tags of both" 2 "$(ec2 describe-tags --filters Name=key,Values=owner --query 'length(Tags)')"
same "a tag's value with signs in it" 'a b&c <d>' \
  "$(ec2 describe-tags --filters Name=resource-id,Values="$volume" Name=key,Values=owner --query 'Tags[].Value')"
ec2 delete-tags --resources "$volume" "$instance" --tags Key=owner
same "tags deleted" 0 "$(ec2 describe-tags --filters Name=key,Values=owner --query 'length(Tags)')"

same "detaching" detaching \
  "$(ec2 detach-volume --volume-id "$volume" --instance-id "$instance" --query State)"
becomes "free again" available describe-volumes --volume-ids "$volume" --query 'Volumes[].State'
refused "detaching what is free" IncorrectState detach-volume --volume-id "$volume" --instance-id "$instance"

# ---- launch templates and fleets
same "types of one architecture" t4g.medium \
  "$(ec2 describe-instance-types --instance-types t4g.medium \
    --filters Name=processor-info.supported-architecture,Values=arm64 --query 'InstanceTypes[].InstanceType')"
refused "a type that never was" InvalidInstanceType describe-instance-types --instance-types z9.huge
same "where a type is offered" us-east-1a \
  "$(ec2 describe-instance-type-offerings --location-type availability-zone \
    --filters Name=instance-type,Values=p4d.24xlarge --query 'InstanceTypeOfferings[].Location')"
same "placement scores by zone" 2 \
  "$(ec2 get-spot-placement-scores --instance-types g5.xlarge g6.xlarge g4dn.xlarge --target-capacity 4 \
    --single-availability-zone --query 'length(SpotPlacementScores)')"
template=$(ec2 create-launch-template --launch-template-name pool --client-token template-one \
  --launch-template-data '{"ImageId":"ami-02000000000000002","KeyName":"operator",
    "BlockDeviceMappings":[{"DeviceName":"/dev/sdf","Ebs":{"SnapshotId":"snap-01000000000000001",
      "DeleteOnTermination":false}}],
    "InstanceInitiatedShutdownBehavior":"terminate","MetadataOptions":{"InstanceMetadataTags":"enabled"}}' \
  --tag-specifications 'ResourceType=launch-template,Tags=[{Key=pool,Value=p}]' \
  --query LaunchTemplate.LaunchTemplateId)
same "the template by its tag" "$template" \
  "$(ec2 describe-launch-templates --filters Name=tag:pool,Values=p --query 'LaunchTemplates[].LaunchTemplateId')"
same "a second version from the first" "2 ami-02000000000000002" \
  "$(ec2 create-launch-template-version --launch-template-id "$template" --source-version 1 \
    --launch-template-data '{"InstanceType":"g5.xlarge"}' \
    --query "join(' ', [to_string(LaunchTemplateVersion.VersionNumber), LaunchTemplateVersion.LaunchTemplateData.ImageId])")"
same "its user data and device in the listing" /dev/sdf \
  "$(ec2 describe-launch-template-versions --launch-template-id "$template" --versions 2 \
    --query 'LaunchTemplateVersions[].LaunchTemplateData.BlockDeviceMappings[].DeviceName')"
refused "a template's name twice" InvalidLaunchTemplateName.AlreadyExistsException \
  create-launch-template --launch-template-name pool --launch-template-data '{"ImageId":"ami-02000000000000002"}'

# fleet COUNT OVERRIDES QUERY
fleet() {
  ec2 create-fleet --type instant --target-capacity-specification \
    "TotalTargetCapacity=$1,DefaultTargetCapacityType=spot" \
    --spot-options AllocationStrategy=price-capacity-optimized --launch-template-configs \
    "[{\"LaunchTemplateSpecification\":{\"LaunchTemplateId\":\"$template\",\"Version\":\"1\"},\"Overrides\":$2}]" \
    --tag-specifications 'ResourceType=instance,Tags=[{Key=warmroot:pool,Value=fleet}]' --query "$3"
}
same "a fleet of two" 2 \
  "$(fleet 2 '[{"InstanceType":"g5.xlarge","SubnetId":"subnet-01000000000000001"}]' \
    'length(Instances[].InstanceIds[])')"
same "a fleet that fails inside success" "SpotMaxPriceTooLow Unsupported" \
  "$(fleet 1 '[{"InstanceType":"g5.xlarge","SubnetId":"subnet-01000000000000001","MaxPrice":"0.01"},
    {"InstanceType":"p4d.24xlarge","SubnetId":"subnet-02000000000000002"}]' 'sort(Errors[].ErrorCode)' | tr '\t' ' ')"
becomes "its instances carry the fleet's tag" 2 describe-instances \
  --filters Name=tag:warmroot:pool,Values=fleet Name=tag-key,Values=aws:ec2:fleet-id \
  --query 'length(Reservations[].Instances[])'
same "a launch by the template" "$template" \
  "$(ec2 run-instances --launch-template "LaunchTemplateId=$template,Version=2" --count 1 \
    --query "Instances[].Tags[?Key=='aws:ec2launchtemplate:id'].Value")"
ec2 delete-launch-template --launch-template-name pool >/dev/null
refused "the deleted template" InvalidLaunchTemplateId.NotFound \
  describe-launch-templates --launch-template-ids "$template"

# ---- stop, start, attributes
fixed=$(ec2 run-instances --image-id ami-02000000000000002 --instance-type m6i.large --count 1 \
  --subnet-id subnet-01000000000000001 --disable-api-termination --query 'Instances[].InstanceId')
becomes "an on-demand instance runs" running \
  describe-instances --instance-ids "$fixed" --query 'Reservations[].Instances[].State.Name'
refused "stopping a one-time spot instance" UnsupportedOperation stop-instances --instance-ids "$instance"
refused "terminating what is protected" OperationNotPermitted terminate-instances --instance-ids "$fixed"
same "the protection in words" True \
  "$(ec2 describe-instance-attribute --instance-id "$fixed" --attribute disableApiTermination \
    --query DisableApiTermination.Value)"
ec2 modify-instance-attribute --instance-id "$fixed" --no-disable-api-termination
ec2 modify-instance-attribute --instance-id "$fixed" \
  --block-device-mappings 'DeviceName=/dev/xvda,Ebs={DeleteOnTermination=false}'
same "the root will be kept" False \
  "$(ec2 describe-instance-attribute --instance-id "$fixed" --attribute blockDeviceMapping \
    --query 'BlockDeviceMappings[].Ebs.DeleteOnTermination')"
same "stopping" stopping \
  "$(ec2 stop-instances --instance-ids "$fixed" --query 'StoppingInstances[].CurrentState.Name')"
becomes "stopped" stopped \
  describe-instances --instance-ids "$fixed" --query 'Reservations[].Instances[].State.Name'
same "starting" pending \
  "$(ec2 start-instances --instance-ids "$fixed" --query 'StartingInstances[].CurrentState.Name')"
ec2 terminate-instances --instance-ids "$fixed" >/dev/null

# ---- copies, snapshots, initialisation
golden=$(ec2 create-volume --availability-zone us-east-1a --snapshot-id snap-01000000000000001 --query VolumeId)
becomes "a volume to copy" available describe-volumes --volume-ids "$golden" --query 'Volumes[].State'
same "its status" ok \
  "$(ec2 describe-volume-status --volume-ids "$golden" --query 'VolumeStatuses[].VolumeStatus.Status')"
# Debian's package may be older than these parameters and actions.
if "$aws_program" ec2 copy-volumes --generate-cli-skeleton >/dev/null 2>&1; then
  same "a paid rate" 100 \
    "$(ec2 create-volume --availability-zone us-east-1a --snapshot-id snap-01000000000000001 \
      --volume-initialization-rate 100 --query VolumeInitializationRate)"
  same "how its blocks come" default \
    "$(ec2 describe-volume-status --volume-ids "$golden" \
      --query 'VolumeStatuses[].InitializationStatusDetails.InitializationType')"
  same "a copy of it" "$golden" \
    "$(ec2 copy-volumes --source-volume-id "$golden" --volume-type gp3 --client-token copy-one \
      --query 'Volumes[].SourceVolumeId')"
  refused "two copies at once" ConcurrentCopyVolumeLimitExceeded copy-volumes --source-volume-id "$golden"
else
  echo "awscli_test: SKIPPED: this AWS CLI knows no copy-volumes"
fi
snapshot=$(ec2 create-snapshot --volume-id "$golden" --description golden --query SnapshotId)
same "the snapshot is pending" pending \
  "$(ec2 describe-snapshots --owner-ids self --snapshot-ids "$snapshot" --query 'Snapshots[].State')"
refused "a snapshot of the volume right after" SnapshotCreationPerVolumeRateExceeded \
  create-snapshot --volume-id "$golden"
ec2 delete-snapshot --snapshot-id "$snapshot"
same "fast restore is asked for" enabling \
  "$(ec2 enable-fast-snapshot-restores --availability-zones us-east-1a \
    --source-snapshot-ids snap-01000000000000001 --query 'Successful[].State')"
same "and listed" snap-01000000000000001 \
  "$(ec2 describe-fast-snapshot-restores --filters Name=state,Values=enabling \
    --query 'FastSnapshotRestores[].SnapshotId')"
refused "a dry run of a fleet" DryRunOperation create-fleet --dry-run --type instant \
  --target-capacity-specification TotalTargetCapacity=1,DefaultTargetCapacityType=spot \
  --launch-template-configs '[{"LaunchTemplateSpecification":{"LaunchTemplateId":"lt-01","Version":"1"}}]'

# ---- EBS direct
blocks() {
  "$aws_program" --endpoint-url "$endpoint" --output text --cli-read-timeout 20 ebs list-snapshot-blocks "$@"
}
same "a page of the snapshot's blocks, and the volume's size" "1000 0 8 524288" \
  "$(blocks --snapshot-id snap-01000000000000001 --max-results 1000 \
    --query '[length(Blocks), Blocks[0].BlockIndex, VolumeSize, BlockSize]' | tr '\t' ' ')"
token=$(blocks --snapshot-id snap-01000000000000001 --max-results 1000 --query NextToken)
same "the next page begins where it ended" 1000 \
  "$(blocks --snapshot-id snap-01000000000000001 --next-token "$token" --query 'Blocks[0].BlockIndex')"
if blocks --snapshot-id snap-04000000000000004 >"$work/answer" 2>&1 || ! grep -q "(AccessDeniedException)" "$work/answer"; then
  echo "awscli_test: blocks of somebody else's snapshot: $(cat "$work/answer")" >&2
  exit 1
fi
echo "ok: blocks of somebody else's snapshot are not listed"

refused "a volume that never was" InvalidVolume.NotFound describe-volumes --volume-ids vol-00000000000000000
refused "a malformed instance id" InvalidInstanceID.Malformed describe-instances --instance-ids i-nonsense
refused "a filter that EC2 does not have" InvalidParameterValue describe-volumes --filters Name=colour,Values=red
refused "a snapshot of somebody else's image" InvalidSnapshot.NotFound \
  create-volume --availability-zone us-east-1a --snapshot-id snap-04000000000000004
refused "a dry run" DryRunOperation delete-volume --volume-id "$volume" --dry-run
refused "an action that is not modelled" InvalidAction describe-vpcs
(export AWS_SECRET_ACCESS_KEY=wrong; refused "a wrong secret key" SignatureDoesNotMatch describe-volumes)
(export AWS_ACCESS_KEY_ID=AKIDUNKNOWN; refused "an unknown key" AuthFailure describe-volumes)

number=0
while [ "$number" -lt 6 ]; do
  ec2 create-volume --availability-zone us-east-1b --size 1 --query VolumeId >/dev/null
  number=$((number + 1))
done
same "pages of five add up" "$(ec2 describe-volumes --query 'length(Volumes)')" \
  "$(ec2 describe-volumes --page-size 5 --query 'Volumes[].VolumeId' | tr '\t' '\n' | grep -c '^vol-')"

same "terminating" shutting-down \
  "$(ec2 terminate-instances --instance-ids "$instance" --query 'TerminatingInstances[].CurrentState.Name')"
becomes "terminated" terminated \
  describe-instances --instance-ids "$instance" --query 'Reservations[].Instances[].State.Name'
ec2 delete-volume --volume-id "$volume"

# ---- queues: what EventBridge would put into them, over the JSON protocol that the CLI speaks ----
# Debian's CLI 2.9 speaks SQS's older protocol, which nothing here needs; another one on the PATH may be newer.
sqs_program=$(command -v aws || echo "$aws_program")
sqs() { "$sqs_program" --endpoint-url "$endpoint" --output text --cli-read-timeout 40 sqs "$@"; }
queue=$(sqs create-queue --queue-name cli-events 2>&1 || true)
case "$queue" in
  http*)
    same "the queue is found by its name" "$queue" "$(sqs get-queue-url --queue-name cli-events)"
    curl -fsS --noproxy '*' -X POST "$endpoint/_control/queue?name=cli-events" >/dev/null
    event_guest=$(ec2 run-instances --image-id ami-02000000000000002 --instance-type g5.xlarge --count 1 \
      --query 'Instances[0].InstanceId')
    handle=$(sqs receive-message --queue-url "$queue" --wait-time-seconds 5 --query 'Messages[0].ReceiptHandle')
    same "a message in flight is hidden" None "$(sqs receive-message --queue-url "$queue" --query 'Messages[0].Body')"
    sqs change-message-visibility --queue-url "$queue" --receipt-handle "$handle" --visibility-timeout 0
    body=$(sqs receive-message --queue-url "$queue" --query 'Messages[0].Body')
    case "$body" in *'EC2 Instance State-change Notification'*"$event_guest"*) echo "ok: a launch is told to the queue" ;;
      *) echo "awscli_test: the queue holds '$body'" >&2; exit 1 ;; esac
    ;;
  *"correct service: 'ec2'"*) echo "awscli_test: queues SKIPPED: $sqs_program speaks the older protocol" ;;
  *) echo "awscli_test: create-queue answered '$queue'" >&2; exit 1 ;;
esac
echo "awscli_test: all passed"
